#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/device.h"

namespace frugal::kernels {

/// Record of what was issued to a virtual device in some stretch of a run, without times: how long
/// each operation keeps which stream busy, and which stream waits for what. A device plays it again
/// from where its clocks are then (Replay::repeat).
class Tape {
 public:
  /// False where the device did more in the stretch, and the tape cannot be played: something
  /// waited for what began before the tape, looked at a clock, or used the host's memory.
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
    uint32_t event = 0;
    double seconds = 0;
    double beside = 0;  ///< seconds of an execution beside a collective
    double issue = 0;   ///< seconds of the host
    std::string_view name = {};
  };
  std::vector<Entry> entries_;
  uint64_t before_ = 0;  // Event::number of the last event that is not on it
  bool complete_ = true;
};

/// Repetition of a stretch of a run by a device whose memory holds no values: the same to the bit,
/// from where the device is then (Device::replay()).
class Replay {
 public:
  /// All that the device was asked for.
  struct Stretch {
    Tape tape;
    DeviceWork work;
    int64_t bytes = 0;  ///< in use when it ended, less those when it began
  };
  /// Clocks of the streams and the host, in seconds, and the memory in use.
  struct State {
    std::array<double, most_streams> clocks{};
    double host = 0;
    std::array<double, most_streams> late{};  ///< what computation has delayed collectives by
    int64_t in_use = 0, host_in_use = 0;
  };
  /// State, and the work done on the way there.
  struct History {
    State state;
    DeviceWork work;
  };

  /// Notes what is issued from now on, until stop(). One stretch at a time.
  virtual void start(Stretch& stretch) = 0;
  virtual void stop() = 0;
  /// True where the device has memory for so many bytes more.
  virtual bool fits(int64_t bytes) const = 0;
  /// Issues what the stretch has. Throws std::logic_error where its tape is not complete.
  virtual void repeat(const Stretch& stretch) = 0;
  /// The device goes on from there; returns where it was.
  virtual History exchange(const History& history) = 0;

 protected:
  ~Replay() = default;
};

}  // namespace frugal::kernels
