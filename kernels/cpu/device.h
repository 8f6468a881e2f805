#pragma once
#include <array>
#include <memory>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/device.h"

namespace frugal::kernels {

class CpuAttention;
class CpuGemm;

/// The processor that the program runs on: everything is done when execute() returns, in one order,
/// whatever the stream. Only what occupy() pretends to do goes on beside it. To be used by one
/// thread, for which it sets the number of OpenMP threads.
class CpuDevice : public Device {
 public:
  /// `memory` limits the bytes allocated at a time, by all devices that share it. Throws InputError
  /// when threads < 1 or the environment variable FRUGAL_SIMD asks for instructions that are not
  /// there.
  explicit CpuDevice(int threads, std::shared_ptr<MemoryBudget> memory = machine_memory());
  CpuDevice(int threads, int64_t capacity)
      : CpuDevice(threads, std::make_shared<MemoryBudget>(capacity)) {}
  ~CpuDevice() override;

  std::string name() const override { return "cpu"; }
  bool backed() const override { return true; }

  void* allocate(int64_t bytes) override { return memory_.allocate(bytes); }
  void deallocate(void* address, int64_t bytes) noexcept override {
    memory_.deallocate(address, bytes);
  }
  /// Memory as any other here, which counts for itself.
  void* allocate_on_host(int64_t bytes) override { return host_memory_.allocate(bytes); }
  void deallocate_on_host(void* address, int64_t bytes) noexcept override {
    host_memory_.deallocate(address, bytes);
  }
  int64_t reserved() const override { return memory_.reserved(); }

  void occupy(Stream stream, double seconds, std::string_view name) override;

  Event record(Stream stream) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize() override;
  double now() override;

  void copy_to_host(void* host, const View& from) override;
  void copy_from_host(const View& to, const void* host) override;

 protected:
  void run_on(Stream stream, const Operation& operation) override;

 private:
  void wait_until(double moment);

  int threads_;
  const Kernels& kernels_;
  CachingAllocator memory_;
  CachingAllocator host_memory_{machine_memory()};
  std::unique_ptr<CpuGemm> gemm_;
  std::unique_ptr<CpuAttention> attention_;
  std::array<double, most_streams> busy_until_{};  // by occupy()
};

}  // namespace frugal::kernels
