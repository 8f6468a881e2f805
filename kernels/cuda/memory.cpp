#include "kernels/cuda/memory.h"

#include <fmt/format.h>

#include "kernels/cuda/check.h"
#include "kernels/support/error.h"

namespace frugal::FRUGAL_CUDA {
namespace {

constexpr int64_t small_step = 512, large_step = int64_t{2} << 20;

/// What is taken for a request. The driver gives large blocks in pages of 2 MiB anyway.
int64_t size_class(int64_t bytes) {
  const int64_t step = bytes < large_step / 2 ? small_step : large_step;
  const int64_t size = bytes < 1 ? 1 : bytes;
  return (size + step - 1) / step * step;
}

}  // namespace

/// Null where the GPU has no more.
void* CudaMemory::obtain(int64_t size) {
  void* address = nullptr;
  const cudaError_t error = cudaMalloc(&address, static_cast<size_t>(size));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is handled, and must not surface later
    return nullptr;
  }
  check(error, "cudaMalloc");
  reserved_ += size;
  return address;
}

void* CudaMemory::allocate(int64_t bytes) {
  const int64_t size = size_class(bytes);
  auto& blocks = free_[size];
  void* address = nullptr;
  if (!blocks.empty()) {
    address = blocks.back();
    blocks.pop_back();
  } else {
    address = obtain(size);
    if (address == nullptr) {
      release_free_blocks();
      address = obtain(size);
    }
  }
  if (address == nullptr) {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw OutOfMemory(
        fmt::format("cuda: out of memory ({} bytes requested, {} in use, {} of {} free)", bytes,
                    in_use_, free, total),
        bytes, in_use_, in_use_ + static_cast<int64_t>(free));
  }
  in_use_ += bytes;
  return address;
}

void CudaMemory::deallocate(void* address, int64_t bytes) noexcept {
  if (address == nullptr) return;
  in_use_ -= bytes;
  const int64_t size = size_class(bytes);
  try {
    free_[size].push_back(address);
  } catch (...) {  // no memory for the list itself
    cudaFree(address);
    reserved_ -= size;
  }
}

void CudaMemory::release_free_blocks() noexcept {
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) cudaFree(block);  // waits for what still uses it
    reserved_ -= size * static_cast<int64_t>(blocks.size());
    blocks.clear();
  }
}

}  // namespace frugal::FRUGAL_CUDA
