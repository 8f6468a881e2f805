#include "tests/faulty/lasting.h"

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
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

/// By a bit that is worth a fourth of the element or more, of any type.
void change_element(const Operation& operation) {
  const View result = result_of(operation);
  if (result.empty() || result.size() == 0) return;
  const int64_t size = size_of(result.type), first = result.size() * 5 / 8 * size;
  constexpr std::byte high{1U << 6U};
  static_cast<std::byte*>(result.data)[first + (size > 2 ? size - 2 : 0)] ^= high;
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

const std::map<std::string, Device::OnOperation> lasting_kinds = {
    {"element", [](const Operation& operation, double) { change_element(operation); }},
    {"slow", [](const Operation&, double seconds) { wait_for(slower_by() * seconds); }},
    {"half", [](const Operation&, double seconds) { wait_for(seconds); }},
    {"drift", [](const Operation&, double seconds) { wait_for(0.1 * minutes() * seconds); }}};

}  // namespace

Device::OnOperation lasting_fault() {
  const auto known = lasting_kinds.find(fault().kind);
  if (known == lasting_kinds.end()) return {};
  return [happens = known->second](const Operation& operation, double seconds) {
    if (is_concerned(operation)) happens(operation, seconds);
  };
}

}  // namespace frugal::testing
