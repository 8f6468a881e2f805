#include "tests/main/on_gpu.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return frugal::testing::run_on_gpu(frugal::kernels::why_no_gpu());
}
