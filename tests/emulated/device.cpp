#include "tests/emulated/device.h"

#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/gpus.h"
#include "kernels/cuda/ops/kernels.h"
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

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(int multiprocessors, uint64_t seed)
      : launch_{nullptr, multiprocessors, size_t{227} << 10, &scratch_} {
    emulator::set_seed(seed);
  }

  std::string name() const override { return "cuda, emulated"; }
  bool backed() const override { return true; }
  void* allocate(int64_t bytes) override { return cpu_.allocate(bytes); }
  void deallocate(void* address, int64_t bytes) noexcept override {
    cpu_.deallocate(address, bytes);
  }
  void* allocate_on_host(int64_t bytes) override { return cpu_.allocate_on_host(bytes); }
  void deallocate_on_host(void* address, int64_t bytes) noexcept override {
    cpu_.deallocate_on_host(address, bytes);
  }
  int64_t reserved() const override { return cpu_.reserved(); }
  void run_on(Stream, const Operation& operation) override {
    std::visit(
        [&](const auto& op) {
          using Op = std::decay_t<decltype(op)>;
          if constexpr (OwnKernel<Op>) {
            cuda::run(op, launch_);
          } else if constexpr (WithEpilogue<Op>) {
            if (blas_.run(op, launch_)) return;
            blas_.run(op.gemm, launch_);
            cuda::run(op.epilogue(), launch_);
          } else if constexpr (std::is_same_v<Op, Gemm>) {
            blas_.run(op, launch_);
          } else {
            cpu_.execute(op);
          }
        },
        operation);
  }
  void occupy(Stream stream, double seconds, std::string_view name) override {
    cpu_.occupy(stream, seconds, name);
  }
  Event record(Stream stream) override { return cpu_.record(stream); }
  void wait(Stream stream, const Event& event) override { cpu_.wait(stream, event); }
  void synchronize() override { cpu_.synchronize(); }
  double now() override { return cpu_.now(); }
  void copy_to_host(void* host, const View& from) override { cpu_.copy_to_host(host, from); }
  void copy_from_host(const View& to, const void* host) override { cpu_.copy_from_host(to, host); }

 private:
  CpuDevice cpu_{1};
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
