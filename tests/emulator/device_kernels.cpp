// Stand-in for kernels/cuda/device_kernels.cu, which reads the GPU's clock.
#include "kernels/cuda/device_kernels.h"

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

void occupy(const Launch& on, double seconds, int blocks, double /*bandwidth*/,
            const View& memory) {
  if (seconds <= 0 || blocks == 0) return;
  if (emulator::gpu().computes)
    emulator::push(on.stream, [=] {
      auto* const words = static_cast<float*>(memory.data);
      for (int64_t i = 0; i < memory.bytes() / 4; i += 1024) words[i] = 1;
    });
  occupy(on.stream, seconds);
}

}  // namespace frugal::kernels::cuda
