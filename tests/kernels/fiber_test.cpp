#include "kernels/support/fiber.h"

#include <gtest/gtest.h>

#include <cstdint>

// NOLINTNEXTLINE: the address sanitizer's, where a build has it.
extern "C" [[gnu::weak]] void* __asan_region_is_poisoned(void* begin, size_t size);

namespace frugal::kernels {
namespace {

TEST(Fibers, LeaveTheirStacksUnguarded) {
  if (__asan_region_is_poisoned == nullptr) GTEST_SKIP() << "for the address sanitizer";
  char* frame = nullptr;
  {
    Fiber caller, fiber;
    fiber.start(
        [&]() -> Fiber& {
          frame = static_cast<char*>(__builtin_frame_address(0));
          return caller;
        },
        64 << 10);
    caller.switch_to(fiber);
  }
  constexpr uintptr_t page = 4096;  // the highest of the stack: the first frames are there
  const size_t above = page - reinterpret_cast<uintptr_t>(frame) % page;
  EXPECT_EQ(__asan_region_is_poisoned(frame, above), nullptr);
}

}  // namespace
}  // namespace frugal::kernels
