#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/namespace.h"
#include "engine/schedule/timeline.h"
#include "harness/record/record.h"

/// The arithmetic of benchmarks, apart from what they run.
namespace frugal::bench {

/// Adds metrics of a round's timeline, in seconds or as fractions.
void add_timeline(const Timeline& recorded, const ScheduleKind& schedule, Record& record);

/// (p − 1)/m of p stages with a flush, m = 1 where one microbatch goes through at a time; 0
/// without.
double ideal_bubble(const RunConfig& config);

/// Bytes by name of a process that keeps all memory, and of one within the ledger's peak, which
/// counts the same; and by how much the operating system saw each grow.
void add_memory(const nlohmann::json& kept, const nlohmann::json& within, Record& record);

/// Metrics of a prediction: its seconds, and those over the median of the measured ones less 1.
void add_prediction(double seconds, const char* time, const char* error, Record& record);

/// Bytes of `whole` that each of so many ranks sends at least in an exchange ("all-reduce",
/// "all-gather", "reduce-scatter", or else a message).
double sent_by_rank(const std::string& exchange, double whole, double ranks);

/// A planner's first choice beside all configurations that were executed, in the order of the plan.
class ExecutedPlan {
 public:
  /// Seconds of a batch, and bytes of each stage.
  struct Cost {
    double seconds = 0;
    std::vector<int64_t> memory;
  };
  void add(const std::string& name, const Cost& predicted, const Cost& executed);
  /// Metrics and findings of so many configurations that were considered.
  void add_to(Record& record, size_t considered) const;

 private:
  static constexpr size_t settled = 10;  // as by --execute 10

  size_t executed_ = 0;
  double first_ = 0, best_of_ten_ = 0, best_ = 0;  // seconds of a batch
  std::string first_name_, best_name_;
  double error_ = 0;    // of the predicted time, the largest
  int64_t memory_ = 0;  // predicted bytes too many, the most
  std::string least_exact_time_, least_exact_memory_;
};

}  // namespace frugal::bench
