#include "kernels/cuda/device.h"

#include <cstring>
#include <thread>

namespace frugal::FRUGAL_CUDA {

CudaDevice::~CudaDevice() {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
}

void* CudaDevice::allocate(int64_t bytes) {
  if (const auto found = free_.find(bytes); found != free_.end()) {
    void* const address = found->second;
    free_.erase(found);
    return address;
  }
  constexpr size_t alignment = 64;
  memory_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes) + alignment));
  void* address = memory_.back().get();
  size_t space = static_cast<size_t>(bytes) + alignment;
  return std::align(alignment, static_cast<size_t>(bytes), address, space);
}

void CudaDevice::execute_on(Stream stream, const Operation& operation) {
  CpuDevice& cpu = cpu_[static_cast<size_t>(stream)].device;
  this->stream(stream)->push([&cpu, operation] { cpu.execute(operation); });
}

Event CudaDevice::record(Stream stream) {
  events_.emplace_back();
  cudaEventCreateWithFlags(&events_.back(), cudaEventDisableTiming);
  cudaEventRecord(events_.back(), this->stream(stream));
  return {0, events_.back()};
}

void CudaDevice::wait(Stream stream, const Event& event) {
  cudaStreamWaitEvent(this->stream(stream), static_cast<cudaEvent_t>(event.handle));
}

void CudaDevice::synchronize() {
  for (CUstream_st& stream : streams_) {
    while (!stream.idle()) {
      watch();
      std::this_thread::yield();
    }
  }
  watch();
}

void CudaDevice::copy_to_host(void* host, const View& from) {
  synchronize();
  std::memcpy(host, from.data, static_cast<size_t>(from.bytes()));
}

void CudaDevice::copy_from_host(const View& to, const void* host) {
  synchronize();
  std::memcpy(to.data, host, static_cast<size_t>(to.bytes()));
}

}  // namespace frugal::FRUGAL_CUDA
