#pragma once
#include <array>
#include <functional>
#include <map>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cuda/check.h"

namespace frugal::FRUGAL_CUDA {

/// What communicators see of a GPU, with streams that are threads. As on a GPU, memory that was
/// given back is handed out again at once.
class CudaDevice final : public Device {
 public:
  ~CudaDevice() override;

  std::string name() const override { return "cuda, fake"; }
  bool backed() const override { return true; }
  void* allocate(int64_t bytes) override;
  void deallocate(void* address, int64_t bytes) noexcept override { free_.emplace(bytes, address); }
  void* allocate_on_host(int64_t bytes) override { return allocate(bytes); }
  void deallocate_on_host(void* address, int64_t bytes) noexcept override {
    deallocate(address, bytes);
  }
  int64_t reserved() const override { return 0; }

  void execute_on(Stream stream, const Operation& operation) override;
  void occupy(Stream, double, std::string_view) override {}
  Event record(Stream stream) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize() override;
  double now() override { return cpu_[0].device.now(); }
  void copy_to_host(void* host, const View& from) override;
  void copy_from_host(const View& to, const void* host) override;

  cudaStream_t stream(Stream s) { return &streams_[static_cast<size_t>(s)]; }
  void make_current() const {}
  void add_watch(const void* owner, std::function<void()> watch) {
    watches_.emplace_back(owner, std::move(watch));
  }
  void remove_watch(const void* owner) {
    std::erase_if(watches_, [&](const auto& watch) { return watch.first == owner; });
  }

 private:
  void watch() const {
    for (const auto& [owner, look] : watches_) look();
  }

  struct Worker {
    CpuDevice device{1};
  };
  std::array<Worker, stream_count> cpu_;
  std::vector<cudaEvent_t> events_;
  std::multimap<int64_t, void*> free_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::pair<const void*, std::function<void()>>> watches_;
  std::array<CUstream_st, stream_count> streams_;  // last: they end before what they use
};

}  // namespace frugal::FRUGAL_CUDA
