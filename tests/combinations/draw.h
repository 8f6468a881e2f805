#pragma once
#include <cstdint>
#include <random>
#include <string>

#include "engine/config.h"
#include "engine/options/fields.h"

namespace frugal::testing {
using namespace engine;

/// Draws configurations, the same everywhere from the same seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  /// Devices by the behaviours they can have: those that keep results equal, or all.
  enum class Device : uint8_t { computes, counted };

  /// A small model, and anything that the engine can do with it. Most are refused by validate().
  RunConfig combination(Device device = Device::computes);

 private:
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  /// One time in so many.
  bool once_in(uint64_t times) { return random_() % times == 0; }
  /// One of the values that the description names, or of its range.
  FieldValue value_of(const Described& field);
  RunConfig model();
  /// Chunks that the schedule has, and layers of stages, which follow from other fields.
  void stages(RunConfig& c);
  /// Behaviours of programs, among those that the device can have.
  void program(RunConfig& c, Device device);

  std::mt19937_64 random_;
};

/// Fields that are not as by default, in one line.
std::string text_of(const RunConfig& c);

}  // namespace frugal::testing
