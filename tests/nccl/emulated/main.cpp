#include "kernels/cuda/gpus.h"
#include "tests/emulator/gpu.h"
#include "tests/main/left_out.h"

int main(int argc, char** argv) {
  frugal::kernels::load_kernels_at_first();
  emulator::gpu().count = 8;
  // Small enough for the addresses that the thread sanitizer leaves.
  emulator::gpu().memory = int64_t{1} << 30;
  return frugal::testing::run_tests(argc, argv);
}
