#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/virtual/cost_model.h"
#include "kernels/virtual/pytorch_allocator.h"
#include "kernels/virtual/replay.h"

namespace frugal::kernels {

/// A device that is described, not there: memory is counted but not backed, and time is a clock per
/// stream that the cost model advances. The host has a clock too: an operation starts when it has
/// been issued and its stream is free.
class VirtualDevice final : public Device, private Replay {
 public:
  /// `devices_on_node` devices share the memory of their node's host.
  explicit VirtualDevice(const Machine& machine, const DeviceRules& rules = {},
                         int devices_on_node = 1);

  const Machine& machine() const { return machine_; }
  const DeviceRules& rules() const { return rules_; }
  const CostModel& costs() const { return costs_; }

  std::string name() const override { return "virtual:" + machine_.name; }
  bool backed() const override { return false; }

  /// Null, or an address that nothing is at; throws OutOfMemory beyond the machine's capacity.
  void* allocate(int64_t bytes) override { return allocate_for(MemoryOf::compute, bytes); }
  void* allocate_for(MemoryOf use, int64_t bytes) override;
  void deallocate(void* address, int64_t bytes) noexcept override;
  /// Always null; throws OutOfMemory beyond its part of the host's memory.
  void* allocate_on_host(int64_t bytes) override;
  void deallocate_on_host(void* address, int64_t bytes) noexcept override;
  int64_t reserved() const override {
    return allocator_ ? allocator_->most_reserved() : state_.in_use;
  }
  bool reserves() const override { return allocator_.has_value(); }
  Libraries libraries() const override { return machine_.libraries; }
  int64_t bytes_in_use() const { return state_.in_use; }
  /// Bytes that allocate() and allocate_on_host() can give in all.
  int64_t capacity() const { return capacity_; }
  int64_t host_capacity() const { return host_capacity_; }

  void occupy(Stream stream, double seconds, std::string_view name) override;

  /// Issues to a stream what devices do together; returns when this device is ready for it.
  double issue(Stream stream);
  /// Keeps the stream busy from `begin`, which is not before issue() said, until `end`.
  void occupy_between(Stream stream, std::string_view name, double begin, double end);

  /// Makes what is issued to the stream from now on begin after `until()`, which is called when the
  /// next of it is issued, and then forgotten.
  void hold(Stream stream, std::function<double()> until) {
    held_[stream.index].push_back(std::move(until));
  }
  /// Forgets what streams are held for.
  void let_go() { held_ = {}; }

  /// Says that collectives of a stream cross nodes. Those of two streams at the same time share a
  /// link, and so go at half the rate, where both cross nodes or neither does.
  void cross_nodes(Stream stream) { crosses_nodes_[stream.index] = true; }

  /// The compute stream and the host wait for it.
  void hold_up(const Event& until);

  Event record(Stream stream) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize() override { state_.host = now(); }
  double now() override;

  void begin_pass(bool forward) override;
  void end_pass() override { hold_up_for_passes(); }
  /// Null with an allocator, whose behaviour depends on all that it did before.
  Replay* replay() override { return allocator_ ? nullptr : this; }

  /// Throw std::logic_error: memory has no values to copy.
  void copy_to_host(void* host, const View& from) override;
  void copy_from_host(const View& to, const void* host) override;

  /// Time during which something kept a stream busy.
  struct Interval {
    std::string_view stream;  ///< Device::stream_name()
    std::string_view name;
    double begin, end;
  };
  void keep_log(bool on) { logging_ = on; }
  const std::vector<Interval>& log() const { return log_; }

 private:
  void start(Stretch& stretch) override;
  void stop() override;
  bool fits(int64_t bytes) const override { return bytes <= capacity_ - state_.in_use; }
  void repeat(const Stretch& stretch) override;
  History exchange(const History& history) override;
  void play(const Tape& tape);
  void note(const Tape::Entry& entry);

  /// Has the host wait until what is computed is over, where the program has it so;
  /// what goes on beside that does not hold it up.
  void hold_up_for_passes();

  void add_stream(Stream stream, StreamUse use) override {
    if (use == StreamUse::collectives) collectives_.push_back(stream);
  }
  bool is_collective(Stream stream) const {
    return std::ranges::find(collectives_, stream) != collectives_.end();
  }
  /// Takes longer while collectives are under way, which take a share of the device.
  void run_on(Stream stream, const Operation& operation) override;
  void run_timed(const Operation& operation, const OnOperation& seen) override;
  /// A moment of a stream, and when it is.
  Event mark(Stream stream);
  double time_of(const Event& event) const {
    return event.time + (event.collective ? late(*event.collective) : 0);
  }
  /// Seconds that a kernel takes from `begin` on, beside the collectives that are under way, which
  /// it delays.
  double beside_collectives(double begin, const CostModel::Kernel& kernel);
  /// Seconds that so many seconds of a collective take from `begin` on, beside those of other
  /// streams that share its link, which it delays.
  double beside_others(Stream stream, double begin, double seconds);
  /// Delays what is under way on a collectives' stream by so much.
  void delay(Stream stream, double seconds);
  double& clock(Stream stream) { return state_.clocks[stream.index]; }
  double& late(Stream stream) { return state_.late[stream.index]; }
  double late(Stream stream) const { return state_.late[stream.index]; }
  /// True of operations that a module of TransformerEngine issues, not a function of PyTorch:
  /// products with weights, and attention. Of separate attention that is the softmax, where the
  /// program has it so, and PyTorch issues the products around it.
  bool is_module(const Operation& operation) const;
  /// Host seconds of an operation's first kernel.
  double issue_of(Stream stream, const Operation& operation) const;
  /// Issues something in so many host seconds: when that is done and its stream is free.
  double begin_of_next(Stream stream, double issue);
  /// Executes for `seconds`, or longer where a collective runs beside it.
  void execute_for(Stream stream, const CostModel::Kernel& kernel, double issue,
                   std::string_view name);
  void occupy_for(Stream stream, double seconds, std::string_view name);
  void keep_busy(Stream stream, std::string_view name, double begin, double end);
  /// Something that cannot be played again from another moment.
  void spoil_tape() {
    if (noted_ != nullptr) noted_->tape.complete_ = false;
  }

  const Machine machine_;
  const DeviceRules rules_;
  const CostModel costs_;
  const double collective_speed_;  ///< of a collective beside compute, in (0, 1]
  State state_;
  std::vector<Stream> collectives_;
  std::array<bool, most_streams> crosses_nodes_{};
  std::array<std::vector<std::function<double()>>, most_streams> held_;
  std::optional<PyTorchAllocator> allocator_;  // of a program that has one
  const int64_t capacity_, host_capacity_;
  Stretch* noted_ = nullptr;   // until it is stopped: `work` is that of before it
  uint64_t recorded_ = 0;      // events, on all tapes
  std::vector<Event> played_;  // those of the tape that is played
  bool logging_ = false;
  std::vector<Interval> log_;
};

}  // namespace frugal::kernels
