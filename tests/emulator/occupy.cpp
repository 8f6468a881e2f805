// In place of kernels/cuda/occupy.cu, which reads the GPU's clock.
#include "kernels/cuda/occupy.h"

#include <chrono>
#include <thread>

#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"

namespace frugal::kernels::cuda {

void occupy(cudaStream_t stream, double seconds) {
  if (seconds <= 0 || !emulator::gpu().computes) return;
  emulator::push(stream,
                 [=] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
}

}  // namespace frugal::kernels::cuda
