#pragma once
#include <string_view>

#include "harness/record/cell.h"

namespace frugal::harness {

/// What executes a run: the first word of a record's "on".
enum class DeviceKind : uint8_t { cpu, cuda, simulated };

/// Kind of "cpu", "cuda", "virtual" or "virtual:MACHINE". Throws InputError for anything else.
DeviceKind device_kind(std::string_view on);

constexpr Source source_of(DeviceKind kind) {
  return kind == DeviceKind::simulated ? Source::simulated : Source::measured;
}

}  // namespace frugal::harness
