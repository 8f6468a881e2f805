#include "tests/faulty/lasting.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>

#include "tests/faulty/fault.h"

namespace frugal::testing {
namespace {

using namespace kernels;
using Clock = std::chrono::steady_clock;

const Clock::time_point started = Clock::now();

bool is_concerned(const Operation& operation) {
  const std::string& which = fault().moment;
  const Cost cost = cost_of(operation);
  if (which == "memory") return cost.flops == 0 && cost.bytes >= 1 << 20;
  return which == "any" || which == name_of(operation);
}

/// The view that the operation writes.
View result_of(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> View {
        if constexpr (requires { op.update.target(); }) return op.update.target();
        if constexpr (requires { op.c; }) return op.c;
        if constexpr (requires { op.loss; }) return op.loss;
        if constexpr (requires { op.dx; }) return op.dx;
        if constexpr (requires { op.y; }) return op.y;
        if constexpr (requires { op.p; }) return op.p;
        if constexpr (requires { op.sum; }) return op.sum;
        if constexpr (requires { op.total; }) return op.total;
        if constexpr (requires { op.x; }) return op.x;
        return {};
      },
      operation);
}

/// Flips a bit that is worth a fourth of the element or more, of any type.
void change_element(Device& device, const Operation& operation) {
  const View result = result_of(operation);
  if (result.size() == 0) return;
  const int64_t size = size_of(result.type), first = result.size() * 5 / 8 * size;
  const View element(static_cast<std::byte*>(result.data) + first, result.type, {1});
  std::array<std::byte, 8> bytes{};
  device.copy_to_host(bytes.data(), element);
  bytes.at(static_cast<size_t>(size > 2 ? size - 2 : 0)) ^= std::byte{1U << 6U};
  device.copy_from_host(element, bytes.data());
}

void wait_for(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
  }
}

double slower_by() {
  static const char* const given = std::getenv("FRUGAL_FAULT_SLOWER");
  static const double fraction = given == nullptr ? 0.2 : std::atof(given);
  return fraction;
}

double minutes() { return std::chrono::duration<double>(Clock::now() - started).count() / 60; }

using Happens = void (*)(Device&, const Operation&, double seconds);
const std::map<std::string, Happens> lasting_kinds = {
    {"element",
     [](Device& device, const Operation& operation, double) { change_element(device, operation); }},
    {"slow", [](Device&, const Operation&, double seconds) { wait_for(slower_by() * seconds); }},
    {"half", [](Device&, const Operation&, double seconds) { wait_for(seconds); }},
    {"drift",
     [](Device&, const Operation&, double seconds) { wait_for(0.1 * minutes() * seconds); }}};

}  // namespace

Device::OnOperation lasting_fault(Device& device) {
  const auto known = lasting_kinds.find(fault().kind);
  if (known == lasting_kinds.end()) return {};
  return [&device, happens = known->second](const Operation& operation, double seconds) {
    if (is_concerned(operation)) happens(device, operation, seconds);
  };
}

}  // namespace frugal::testing
