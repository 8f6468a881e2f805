#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/namespace.h"
#include "harness/measure/timing.h"
#include "harness/record/line_file.h"
#include "harness/report/table.h"
#include "kernels/device.h"

namespace frugal::bench {

struct Options {
  std::string on = "cpu";
  int threads = 1;
  int samples = 15;
  double budget = 20;  ///< seconds for one contest
  std::string filter;  ///< only contests whose name contains it
  std::string json;    ///< file that raw samples are added to
};

/// Something of ours and what it is held against. Work is in FLOPs or bytes.
struct Contest {
  std::string name;
  double work = 0, reference_work = 0;
  std::function<void()> run, reference;
  /// Both sides are done so often in one sample; a GPU's are over too soon to time one alone.
  int repetitions = 1;
  std::function<double()> clock = steady_seconds;  ///< a virtual device has its own
};

/// Times contests by turns and reports the ratio of rates: 1 is as fast as the reference.
class Report {
 public:
  /// Throws InputError where the file for raw samples cannot be written.
  Report(Options options, std::string unit);

  const Options& options() const { return options_; }
  bool wants(const std::string& name) const {
    return name.find(options_.filter) != std::string::npos;
  }
  /// Both sides in alternation. When it returns, the samples are on the disk, with the environment:
  /// what ends the program later takes nothing away.
  void add(const Contest& contest);
  /// The table of all that was added.
  void print() const;

 private:
  void record(const Contest& contest, const std::vector<double>& ours,
              const std::vector<double>& theirs);

  Options options_;
  Table table_;
  LineFile file_;
  nlohmann::json about_;  ///< what a line says beside its contest
};

/// Device memory for one operand, random normal where it is floating point, each its own numbers.
class Buffer {
 public:
  Buffer(Device& device, DType type, const Shape& shape);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { device_.deallocate(view_.data, view_.bytes()); }
  const View& view() const { return view_; }

 private:
  Device& device_;
  View view_;
};

void compare_gemm(Report& report);          // gemm.cpp
void compare_memory_bound(Report& report);  // memory_bound.cpp
void compare_attention(Report& report);     // attention.cpp

}  // namespace frugal::bench
