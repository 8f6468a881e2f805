#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/device.h"

namespace frugal::kernels {

/// What was issued to a virtual device in some stretch of a run, without the times at which it was:
/// how long each operation keeps which stream busy, and which stream waits for what. A device plays
/// it again from where its clocks are then (Replay::repeat).
class Tape {
 public:
  /// Whether that is all the device was asked for. Otherwise it cannot be played: something waited
  /// for what began before the tape did, looked at a clock, or used the host's memory.
  bool complete() const { return complete_; }

 private:
  friend class VirtualDevice;
  enum class Kind : uint8_t {
    execute,  ///< work of this device, slower beside a collective
    occupy,   ///< what takes as long whatever runs beside it
    record,   ///< the next event
    wait      ///< for event number `event`
  };
  struct Entry {
    Kind kind;
    Stream stream;
    uint32_t event;
    double seconds;
    std::string_view name;
  };
  std::vector<Entry> entries_;
  uint64_t before_ = 0;  // Event::number of the last event that is not on it
  bool complete_ = true;
};

}  // namespace frugal::kernels
