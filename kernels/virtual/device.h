#pragma once
#include <vector>

#include "kernels/device.h"
#include "kernels/virtual/cost_model.h"

namespace frugal {

/// A device that is described, not there: memory is counted but not backed, and time is a clock per
/// stream that the cost model advances. The host has a clock too: an operation starts when it has
/// been issued and its stream is free.
class VirtualDevice final : public Device {
 public:
  /// With its part of the host's memory, where so many devices share that of their node.
  explicit VirtualDevice(const Machine& machine, int devices_on_node = 1);

  const Machine& machine() const { return machine_; }
  const CostModel& costs() const { return costs_; }

  std::string name() const override { return "virtual:" + machine_.name; }
  bool backed() const override { return false; }

  /// Always null; throws OutOfMemory beyond the machine's capacity.
  void* allocate(int64_t bytes) override;
  void deallocate(void* address, int64_t bytes) noexcept override;
  /// Always null; throws OutOfMemory beyond its part of the host's memory.
  void* allocate_on_host(int64_t bytes) override;
  void deallocate_on_host(void* address, int64_t bytes) noexcept override;
  int64_t reserved() const override { return in_use_; }
  int64_t bytes_in_use() const { return in_use_; }

  /// Takes longer while the communication stream is busy, whose collectives take a share of the
  /// device.
  void execute_on(Stream stream, const Operation& operation) override;
  void occupy(Stream stream, double seconds, std::string_view name) override;

  /// For what devices do together. Issues something to a stream: when this device is ready for it.
  double issue(Stream stream);
  /// Keeps the stream busy from `begin`, which is not before issue() said, until `end`.
  void occupy_between(Stream stream, std::string_view name, double begin, double end);

  /// The compute stream and the host wait for it.
  void hold_up(const Event& until);

  Event record(Stream stream) override { return {clock(stream), nullptr}; }
  void wait(Stream stream, const Event& event) override;
  void synchronize() override { host_ = now(); }
  double now() override;

  /// There is nothing to copy: both throw std::logic_error.
  void copy_to_host(void* host, const View& from) override;
  void copy_from_host(const View& to, const void* host) override;

  /// What kept a stream busy, and when.
  struct Interval {
    Stream stream;
    std::string_view name;
    double begin, end;
  };
  void keep_log(bool on) { logging_ = on; }
  const std::vector<Interval>& log() const { return log_; }

 private:
  double& clock(Stream stream) { return clocks_[static_cast<size_t>(stream)]; }

  const Machine machine_;
  const CostModel costs_;
  const double shared_speed_;  ///< of compute beside a collective, in (0, 1)
  std::array<double, stream_count> clocks_{};
  double host_ = 0;
  const int64_t host_capacity_;
  int64_t in_use_ = 0, host_in_use_ = 0;
  bool logging_ = false;
  std::vector<Interval> log_;
};

}  // namespace frugal
