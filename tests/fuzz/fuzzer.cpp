// What libFuzzer calls: the target that FRUGAL_FUZZ names reads one input after another.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

const FuzzTarget& chosen() {
  const char* const name = std::getenv("FRUGAL_FUZZ");  // NOLINT(concurrency-mt-unsafe)
  for (const FuzzTarget& target : fuzz_targets())
    if (name != nullptr && target.name == name) return target;
  fmt::print(stderr, "FRUGAL_FUZZ must name a target:\n");
  for (const FuzzTarget& target : fuzz_targets()) fmt::print(stderr, "{}\n", target.name);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace frugal::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const frugal::testing::FuzzTarget& target = frugal::testing::chosen();
  frugal::testing::read_bytes(target, {reinterpret_cast<const char*>(bytes), size});
  return 0;
}
