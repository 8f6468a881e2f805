#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/table.h"
#include "kernels/device.h"

namespace frugal::bench {

struct Options {
  std::string on = "cpu";
  int threads = 1;
  int samples = 15;
  double budget = 20;  ///< seconds for one contest
  std::string filter;  ///< only contests whose name contains it
  std::string json;    ///< file for raw samples
};

/// Something of ours and what it is held against. Work is in FLOPs or bytes.
struct Contest {
  std::string name;
  double work = 0, reference_work = 0;
  std::function<void()> run, reference;
  /// Both sides are done so often in one sample; a GPU's are over too soon to time one alone.
  int repetitions = 1;
};

/// Times contests by turns and reports the ratio of rates: 1 is as fast as the reference.
class Report {
 public:
  Report(Options options, std::string unit);

  bool wants(const std::string& name) const {
    return name.find(options_.filter) != std::string::npos;
  }
  /// Both sides in alternation; one line of the table.
  void add(const Contest& contest);
  /// Prints the table, writes raw samples with the environment to the file asked for.
  void finish() const;

 private:
  Options options_;
  Table table_;
  nlohmann::json contests_ = nlohmann::json::array();
};

/// Device memory for one operand, random normal where it is floating point.
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

void compare_gemm(const Options& options);          // gemm.cpp
void compare_memory_bound(const Options& options);  // memory_bound.cpp
void compare_attention(const Options& options);     // attention.cpp

}  // namespace frugal::bench
