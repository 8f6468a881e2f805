#include "kernels/virtual/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal {
namespace {

/// `part` of the device, after its name.
void take(int64_t bytes, int64_t& in_use, int64_t capacity, const Device& device,
          std::string_view part = "") {
  if (bytes > capacity - in_use)
    throw OutOfMemory(fmt::format("{}{}: {} bytes do not fit: {} of {} bytes are in use",
                                  device.name(), part, bytes, in_use, capacity),
                      bytes, in_use, capacity);
  in_use += bytes;
}

}  // namespace

VirtualDevice::VirtualDevice(const Machine& machine, int devices_on_node)
    : machine_(machine),
      costs_(machine),
      shared_speed_(1 - machine.collective_share),
      host_capacity_(machine.host_memory / devices_on_node) {}

void* VirtualDevice::allocate(int64_t bytes) {
  take(bytes, in_use_, machine_.memory_capacity, *this);
  return nullptr;
}

void VirtualDevice::deallocate(void* /*address*/, int64_t bytes) noexcept { in_use_ -= bytes; }

void* VirtualDevice::allocate_on_host(int64_t bytes) {
  take(bytes, host_in_use_, host_capacity_, *this, "'s host");
  return nullptr;
}

void VirtualDevice::deallocate_on_host(void* /*address*/, int64_t bytes) noexcept {
  host_in_use_ -= bytes;
}

double VirtualDevice::issue(Stream stream) {
  host_ += machine_.launch_overhead;
  return std::max(clock(stream), host_);
}

void VirtualDevice::occupy_between(Stream stream, std::string_view name, double begin, double end) {
  clock(stream) = end;
  if (logging_) log_.push_back({stream, name, begin, end});
}

void VirtualDevice::execute_on(Stream stream, const Operation& operation) {
  const std::string_view name = name_of(operation);
  for (const double alone : costs_.kernels(operation)) {
    const double begin = issue(stream);
    double seconds = alone;
    // A collective is issued before what overlaps it, so the whole overlap is known here.
    const double shared = stream == Stream::compute ? clock(Stream::communication) - begin : 0;
    if (shared > 0) {
      const double done = shared * shared_speed_;
      seconds = seconds < done ? seconds / shared_speed_ : shared + seconds - done;
    }
    occupy_between(stream, name, begin, begin + seconds);
  }
}

void VirtualDevice::occupy(Stream stream, double seconds, std::string_view name) {
  const double begin = issue(stream);
  occupy_between(stream, name, begin, begin + seconds);
}

void VirtualDevice::wait(Stream stream, const Event& event) {
  clock(stream) = std::max(clock(stream), event.time);
}

void VirtualDevice::hold_up(const Event& until) {
  wait(Stream::compute, until);
  host_ = std::max(host_, until.time);
}

double VirtualDevice::now() {
  return std::max(host_, *std::max_element(clocks_.begin(), clocks_.end()));
}

void VirtualDevice::copy_to_host(void* /*host*/, const View& /*from*/) {
  throw std::logic_error("a virtual device's memory holds no values to copy");
}

void VirtualDevice::copy_from_host(const View& /*to*/, const void* /*host*/) {
  throw std::logic_error("a virtual device's memory cannot hold values");
}

}  // namespace frugal
