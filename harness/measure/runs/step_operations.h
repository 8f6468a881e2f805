#pragma once
#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "engine/cluster/cluster.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// Operations of a step that have the same form and size.
struct AlikeOperations {
  std::string form;                  ///< form_of()
  std::array<int64_t, 4> product{};  ///< batch, m, n and k of a Gemm; zeros of others
  Cost cost;                         ///< of each
  std::vector<double> seconds;       ///< of each, in the order in which they were made

  /// What they take of one of so many steps: each the median of what they took.
  double seconds_of_step(int64_t steps) const;
};

/// Times each operation of a run on its own, on the first rank of every stage, as its device does
/// (Device::time_operations).
class StepOperations {
 public:
  static constexpr const char* schema = "frugal.operations/1";

  /// Times nothing yet. The cluster has to live longer.
  explicit StepOperations(Cluster& cluster);
  ~StepOperations();
  StepOperations(const StepOperations&) = delete;
  StepOperations& operator=(const StepOperations&) = delete;

  /// Whether operations are timed from now on, and until it ends.
  void time(bool on);
  /// Of each stage, what takes most of a step first; `steps` were made.
  std::vector<std::vector<AlikeOperations>> of_steps(int64_t steps) const;

 private:
  using Size = std::tuple<std::string, std::array<int64_t, 4>, double, double>;
  struct Stage {
    Device* device;
    std::map<Size, AlikeOperations> operations;
  };
  std::vector<Stage> stages_;
};

/// One line each, with its part of the step and its rates.
Table step_operations_table(const std::vector<AlikeOperations>& operations, int64_t steps);
/// {"stage", "operations": [{"operation", "product", "count", "flops", "bytes", "seconds"}, …]} of
/// each stage.
nlohmann::json to_json(const std::vector<std::vector<AlikeOperations>>& stages, int64_t steps);

}  // namespace frugal::harness
