#pragma once
#include "harness/measure/case_run.h"
#include "harness/measure/timing.h"
#include "kernels/device.h"

namespace frugal::bench {

/// Something whose time is a result, beside the work that one execution does.
class Timed : public CaseRun {
 public:
  /// `seconds` executes it and says how long one execution took.
  Timed(double work, const char* unit, std::function<double()> seconds)
      : work_(work), unit_(unit), seconds_(std::move(seconds)) {}

  void observe(Record& record) override { record.add_sample(metric::work, unit_, work_); }
  void time(Record& record, bool keep) override {
    const double seconds = seconds_();
    if (keep) record.add_sample(metric::time, "s", seconds);
  }
  /// What it holds goes with the function.
  void release(Record& /*record*/) override { seconds_ = {}; }

 private:
  double work_;
  const char* unit_;
  std::function<double()> seconds_;
};

/// The seconds that `work` takes by a clock, of `repetitions` of it those of one.
inline std::function<double()> timed(std::function<void()> work, int repetitions = 1,
                                     std::function<double()> clock = steady_seconds) {
  return [work = std::move(work), repetitions, clock = std::move(clock)] {
    const double start = clock();
    for (int i = 0; i < repetitions; ++i) work();
    return (clock() - start) / repetitions;
  };
}

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

}  // namespace frugal::bench
