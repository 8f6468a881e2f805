#include <gtest/gtest.h>

#include "tests/emulator/gpu.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  emulator::gpu().count = 8;
  // Small enough for the addresses that the thread sanitizer leaves.
  emulator::gpu().memory = int64_t{1} << 30;
  return RUN_ALL_TESTS();
}
