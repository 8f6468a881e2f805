#pragma once
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "bench/namespace.h"
#include "engine/cluster/cluster.h"
#include "harness/measure/benchmark.h"
#include "harness/measure/runs/case_run.h"
#include "harness/measure/timing.h"
#include "kernels/device.h"

namespace frugal::bench {

/// Something whose time is a result, beside the work that one execution does, if that is counted.
class Timed : public CaseRun {
 public:
  /// `seconds` executes it and says how long one execution took.
  Timed(double work, const char* unit, std::function<double()> seconds)
      : work_(work), unit_(unit), seconds_(std::move(seconds)) {}
  explicit Timed(std::function<double()> seconds) : seconds_(std::move(seconds)) {}

  void observe(Record& record) override {
    if (work_) record.add_sample(metric::work, unit_, *work_);
  }
  void time(Record& record, bool keep) override {
    const double seconds = seconds_();
    if (keep) record.add_sample(metric::time, "s", seconds);
  }
  /// What it holds goes with the function.
  void release(Record& /*record*/) override { seconds_ = {}; }

 private:
  std::optional<double> work_;
  const char* unit_ = "";
  std::function<double()> seconds_;
};

/// The seconds that `work` takes.
inline std::function<double()> timed(std::function<void()> work) {
  return [work = std::move(work)] {
    const double start = steady_seconds();
    work();
    return steady_seconds() - start;
  };
}

/// The seconds that one of `repetitions` takes of what `issue` issues to a device, by its clock.
/// The device is waited for before the first and after the last.
inline std::function<double()> timed_on(Device& device, std::function<void()> issue,
                                        int repetitions = 1) {
  return [&device, issue = std::move(issue), repetitions] {
    device.synchronize();
    const double start = device.now();
    for (int i = 0; i < repetitions; ++i) issue();
    device.synchronize();
    return (device.now() - start) / repetitions;
  };
}

/// "64KiB", "16MiB": of a buffer's bytes, the values of an axis.
inline std::string name_of_size(int64_t bytes) {
  return bytes < 1 << 20 ? fmt::format("{}KiB", bytes >> 10) : fmt::format("{}MiB", bytes >> 20);
}

/// A case that runs no model.
inline BenchmarkCase without_model(std::function<std::unique_ptr<CaseRun>(const Target&)> make) {
  return {.make = std::move(make)};
}

/// Of an axis "type" that has "f32" and "bf16".
inline DType type_at(const Point& point) {
  return point.at("type") == name_of(DType::bf16) ? DType::bf16 : DType::f32;
}

/// A target's device for one case, without peers.
struct OneDevice {
  explicit OneDevice(const Target& target);

  std::unique_ptr<Cluster> alone;
  Device& device;
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

}  // namespace frugal::bench
