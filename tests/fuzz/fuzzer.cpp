// What libFuzzer calls: the target that FRUGAL_FUZZ names reads one input after another. Half of
// them are made of others by their JSON, the rest by their bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/mutate.h"
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

// libFuzzer's own; not there where the corpora are read without it.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most, unsigned seed) {
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  const auto other =
      seed % 2 == 0 ? frugal::testing::with_other_json(input, seed / 2) : std::nullopt;
  if (!other || other->size() > most) return LLVMFuzzerMutate(bytes, size, most);
  std::copy(other->begin(), other->end(), bytes);
  return other->size();
}
