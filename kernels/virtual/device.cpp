#include "kernels/virtual/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "kernels/support/bytes.h"
#include "kernels/support/error.h"

namespace frugal::kernels {
namespace {

/// `part` of the device, after its name.
void take(int64_t bytes, int64_t& in_use, int64_t capacity, const Device& device,
          std::string_view part = "") {
  if (bytes > capacity - in_use)
    throw OutOfMemory(
        fmt::format("{}{}: {} do not fit: {} of {} are in use", device.name(), part,
                    bytes_in_words(bytes), bytes_in_words(in_use), bytes_in_words(capacity)),
        bytes, in_use, capacity);
  in_use += bytes;
}

}  // namespace

VirtualDevice::VirtualDevice(const Machine& machine, const DeviceRules& rules, int devices_on_node)
    : machine_(machine),
      rules_(rules),
      costs_(machine, rules),
      collective_speed_(1 - machine.compute_share),
      capacity_(machine.memory_capacity - (rules.communicator_buffers && devices_on_node > 1
                                               ? machine.communicator_memory
                                               : 0)),
      host_capacity_(machine.host_memory / devices_on_node) {
  if (rules.caching_allocator) allocator_.emplace(capacity_, rules.expandable_segments);
}

void* VirtualDevice::allocate_for(MemoryOf use, int64_t bytes) {
  if (!allocator_) {
    take(bytes, state_.in_use, capacity_, *this);
    return nullptr;
  }
  try {
    const uint64_t address = allocator_->allocate(bytes, use);
    state_.in_use = allocator_->allocated();
    return reinterpret_cast<void*>(address);  // NOLINT: nobody reads what is there
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(
        fmt::format("{}: {} do not fit: {} of {} are reserved", name(), bytes_in_words(bytes),
                    bytes_in_words(allocator_->reserved()), bytes_in_words(capacity_)),
        bytes, allocator_->reserved(), capacity_);
  }
}

void VirtualDevice::deallocate(void* address, int64_t bytes) noexcept {
  if (allocator_) {
    allocator_->free(reinterpret_cast<uint64_t>(address));
    bytes = state_.in_use - allocator_->allocated();
  }
  state_.in_use -= bytes;
}

void* VirtualDevice::allocate_on_host(int64_t bytes) {
  spoil_tape();
  take(bytes, state_.host_in_use, host_capacity_, *this, "'s host");
  return nullptr;
}

void VirtualDevice::deallocate_on_host(void* /*address*/, int64_t bytes) noexcept {
  spoil_tape();
  state_.host_in_use -= bytes;
}

double VirtualDevice::issue(Stream stream) {
  spoil_tape();
  ++work_.calls.launches;
  work_.calls.issue_seconds += machine_.launch_overhead;
  return begin_of_next(stream, machine_.launch_overhead);
}

bool VirtualDevice::is_module(const Operation& operation) const {
  if (std::holds_alternative<Softmax>(operation) ||
      std::holds_alternative<SoftmaxBackward>(operation))
    return rules_.separate_attention_is_module;
  const auto* product = std::get_if<Gemm>(&operation);
  return cost_of(operation).flops > 0 && (product == nullptr || product->batch() == 1);
}

double VirtualDevice::issue_of(Stream stream, const Operation& operation) const {
  if (stream != Stream::compute || rules_.host == Host::launches) return machine_.launch_overhead;
  return rules_.host == Host::transformer_engine && is_module(operation) ? machine_.engine_overhead
                                                                         : machine_.eager_overhead;
}

double VirtualDevice::begin_of_next(Stream stream, double issue) {
  if (auto& held = held_[stream.index]; !held.empty())
    for (const auto& until : std::exchange(held, {}))
      clock(stream) = std::max(clock(stream), until());
  state_.host += issue;
  return std::max(clock(stream), state_.host);
}

void VirtualDevice::occupy_between(Stream stream, std::string_view name, double begin, double end) {
  spoil_tape();
  keep_busy(stream, name, begin, end);
}

void VirtualDevice::keep_busy(Stream stream, std::string_view name, double begin, double end) {
  clock(stream) = end;
  if (logging_) log_.push_back({stream_name(stream), name, begin, end});
}

void VirtualDevice::run_on(Stream stream, const Operation& operation) {
  const std::string_view name = name_of(operation);
  double issue = issue_of(stream, operation);
  for (const CostModel::Kernel& kernel : costs_.kernels(operation)) {
    ++work_.calls.launches;
    work_.calls.issue_seconds += issue;
    execute_for(stream, kernel, issue, name);
    issue = std::min(issue, machine_.eager_overhead);  // further kernels are PyTorch's
  }
}

void VirtualDevice::run_timed(const Operation& operation, const OnOperation& seen) {
  spoil_tape();  // who plays it tells nobody
  const double ready =
      std::max(clock(Stream::compute), state_.host + issue_of(Stream::compute, operation));
  run_on(Stream::compute, operation);
  seen(operation, clock(Stream::compute) - ready);
}

void VirtualDevice::execute_for(Stream stream, const CostModel::Kernel& kernel, double issue,
                                std::string_view name) {
  note({Tape::Kind::execute, stream, 0, kernel.alone, kernel.beside, issue, name});
  const double begin = begin_of_next(stream, issue);
  const double seconds =
      stream == Stream::compute ? beside_collectives(begin, kernel) : kernel.alone;
  keep_busy(stream, name, begin, begin + seconds);
}

double VirtualDevice::beside_collectives(double begin, const CostModel::Kernel& kernel) {
  double longest = 0;
  for (const Stream stream : collectives_) {
    // A collective is issued before what overlaps it, so the whole overlap is known here.
    const double left = clock(stream) - begin;
    if (left <= 0) continue;
    const double together = std::min(kernel.beside, left / collective_speed_);
    delay(stream, together * (1 - collective_speed_));
    longest = std::max(longest, together);
  }
  return kernel.alone + (kernel.beside > 0 ? longest * (1 - kernel.alone / kernel.beside) : 0);
}

double VirtualDevice::beside_others(Stream stream, double begin, double seconds) {
  const auto crosses = [&](Stream of) { return crosses_nodes_[of.index]; };
  double all = seconds;
  for (const Stream other : collectives_) {
    const double left = clock(other) - begin;
    if (other == stream || left <= 0 || crosses(other) != crosses(stream)) continue;
    // Each has half the link until the shorter one has ended.
    const double shared = std::min(seconds, left);
    delay(other, shared);
    all += shared;
  }
  return all;
}

void VirtualDevice::delay(Stream stream, double seconds) {
  if (seconds <= 0) return;
  clock(stream) += seconds;
  late(stream) += seconds;
  if (!logging_) return;
  const auto last =
      std::find_if(log_.rbegin(), log_.rend(),
                   [of = stream_name(stream)](const Interval& i) { return i.stream == of; });
  if (last != log_.rend()) last->end += seconds;
}

void VirtualDevice::occupy(Stream stream, double seconds, std::string_view name) {
  ++work_.calls.launches;
  work_.calls.issue_seconds += machine_.launch_overhead;
  occupy_for(stream, seconds, name);
}

void VirtualDevice::occupy_for(Stream stream, double seconds, std::string_view name) {
  note({Tape::Kind::occupy, stream, 0, seconds, 0, 0, name});
  const double begin = begin_of_next(stream, machine_.launch_overhead);
  if (is_collective(stream)) seconds = beside_others(stream, begin, seconds);
  keep_busy(stream, name, begin, begin + seconds);
}

Event VirtualDevice::mark(Stream stream) {
  if (!is_collective(stream)) return {.time = clock(stream)};
  return {.time = clock(stream) - late(stream), .collective = stream};
}

Event VirtualDevice::record(Stream stream) {
  Event event = mark(stream);
  if (noted_ != nullptr) {
    note({Tape::Kind::record, stream});
    event.number = ++recorded_;
  }
  return event;
}

void VirtualDevice::wait(Stream stream, const Event& event) {
  if (noted_ != nullptr) {
    const uint64_t before = noted_->tape.before_;
    if (event.number <= before)
      spoil_tape();
    else
      note({Tape::Kind::wait, stream, static_cast<uint32_t>(event.number - before - 1)});
  }
  clock(stream) = std::max(clock(stream), time_of(event));
}

void VirtualDevice::hold_up(const Event& until) {
  spoil_tape();
  wait(Stream::compute, until);
  state_.host = std::max(state_.host, time_of(until));
}

void VirtualDevice::begin_pass(bool forward) {
  hold_up_for_passes();
  if (!forward || !rules_.fetches_batches) return;
  state_.host = std::max(state_.host, clock(Stream::compute)) + machine_.batch_overhead;
}

void VirtualDevice::hold_up_for_passes() {
  if (rules_.host_waits_around_passes) hold_up(record(Stream::compute));
}

void VirtualDevice::start(Stretch& stretch) {
  stretch.tape.before_ = recorded_;
  stretch.work = std::exchange(work_, {});
  stretch.bytes = -state_.in_use;
  noted_ = &stretch;
}

void VirtualDevice::stop() {
  Stretch& stretch = *std::exchange(noted_, nullptr);
  std::swap(stretch.work, work_);
  work_.add(stretch.work);
  stretch.bytes += state_.in_use;
}

void VirtualDevice::note(const Tape::Entry& entry) {
  if (noted_ != nullptr) noted_->tape.entries_.push_back(entry);
}

void VirtualDevice::repeat(const Stretch& stretch) {
  play(stretch.tape);
  work_.add(stretch.work);
  state_.in_use += stretch.bytes;
}

VirtualDevice::History VirtualDevice::exchange(const History& history) {
  return {std::exchange(state_, history.state), std::exchange(work_, history.work)};
}

void VirtualDevice::play(const Tape& tape) {
  if (!tape.complete()) throw std::logic_error("a tape that is not complete cannot be played");
  spoil_tape();
  played_.clear();
  for (const Tape::Entry& entry : tape.entries_) switch (entry.kind) {
      case Tape::Kind::execute:
        execute_for(entry.stream, {entry.seconds, entry.beside}, entry.issue, entry.name);
        break;
      case Tape::Kind::occupy:
        occupy_for(entry.stream, entry.seconds, entry.name);
        break;
      case Tape::Kind::record:
        played_.push_back(mark(entry.stream));
        break;
      case Tape::Kind::wait:
        clock(entry.stream) = std::max(clock(entry.stream), time_of(played_[entry.event]));
        break;
    }
}

double VirtualDevice::now() {
  spoil_tape();
  return std::max(state_.host, *std::max_element(state_.clocks.begin(), state_.clocks.end()));
}

void VirtualDevice::copy_to_host(void* /*host*/, const View& /*from*/) {
  throw std::logic_error("a virtual device's memory holds no values to copy");
}

void VirtualDevice::copy_from_host(const View& /*to*/, const void* /*host*/) {
  throw std::logic_error("a virtual device's memory cannot hold values");
}

}  // namespace frugal::kernels
