#include "tests/emulated/device.h"

#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/gpus.h"
#include "tests/emulator/gpu.h"

namespace frugal::kernels {
namespace {

class HostScratch final : public cuda::Scratch {
 public:
  void* bytes(size_t count) override {
    memory_.assign(count + alignment, 0xFF);  // whatever was there before
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (alignment - address % alignment) % alignment;
  }

 private:
  static constexpr size_t alignment = 256;
  std::vector<unsigned char> memory_;
};

class EmulatedDevice final : public CpuDevice {
 public:
  EmulatedDevice(int multiprocessors, uint64_t seed)
      : CpuDevice(1), launch_{nullptr, multiprocessors, size_t{227} << 10, &scratch_} {
    emulator::set_seed(seed);
  }
  std::string name() const override { return "cuda, emulated"; }

 private:
  void run_on(Stream stream, const Operation& operation) override {
    cuda::issue(operation, blas_, launch_, [&](const auto& op) { CpuDevice::run_on(stream, op); });
  }

  HostScratch scratch_;
  cuda::Launch launch_;
  cuda::CudaMemory workspace_{cuda::CudaMemory::Place::gpu};
  cuda::Blas blas_{workspace_, gpus().front()};
};

}  // namespace

std::unique_ptr<Device> make_emulated_device(int multiprocessors, uint64_t seed) {
  return std::make_unique<EmulatedDevice>(multiprocessors, seed);
}

}  // namespace frugal::kernels
