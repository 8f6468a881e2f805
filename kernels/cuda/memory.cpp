#include "kernels/cuda/memory.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/cuda/ops/launch.h"
#include "kernels/support/bytes.h"
#include "kernels/support/error.h"

namespace frugal::kernels::cuda {
namespace {

constexpr int64_t small_step = 512, large_step = int64_t{2} << 20;

/// Bytes that are taken for a request. The driver gives large blocks in pages of 2 MiB anyway.
int64_t size_class(int64_t bytes) {
  const int64_t step = bytes < large_step / 2 ? small_step : large_step;
  const int64_t size = bytes < 1 ? 1 : bytes;
  return (size + step - 1) / step * step;
}

}  // namespace

/// Null where there is no more.
void* CudaMemory::obtain(int64_t size) {
  if (budget_ && !budget_->take(size)) return nullptr;
  void* address = nullptr;
  const auto count = static_cast<size_t>(size);
  const cudaError_t error = place_ == Place::gpu
                                ? cudaMalloc(&address, count)
                                : cudaHostAlloc(&address, count, cudaHostAllocPortable);
  if (error == cudaSuccess) {
    reserved_ += size;
    return address;
  }
  if (budget_) budget_->give_back(size);
  if (error != cudaErrorMemoryAllocation)
    check(error, place_ == Place::gpu ? "cudaMalloc" : "cudaHostAlloc");
  static_cast<void>(cudaGetLastError());  // it is handled, and must not surface later
  return nullptr;
}

void CudaMemory::give_back(void* address, int64_t size) noexcept {
  if (place_ == Place::gpu)
    cudaFree(address);  // waits for what still uses it
  else
    cudaFreeHost(address);
  if (budget_) budget_->give_back(size);
  reserved_ -= size;
}

void CudaMemory::refuse(int64_t bytes) const {
  if (place_ == Place::host)
    throw OutOfMemory(
        fmt::format("cuda: out of memory of the host ({} requested, {} in use, {} of {} taken by "
                    "this process)",
                    bytes_in_words(bytes), bytes_in_words(in_use_),
                    bytes_in_words(budget_->taken()), bytes_in_words(budget_->capacity())),
        bytes, in_use_, in_use_ + budget_->capacity() - budget_->taken());
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  throw OutOfMemory(fmt::format("cuda: out of memory ({} requested, {} in use, {} of {} free)",
                                bytes_in_words(bytes), bytes_in_words(in_use_),
                                bytes_in_words(static_cast<int64_t>(free)),
                                bytes_in_words(static_cast<int64_t>(total))),
                    bytes, in_use_, in_use_ + static_cast<int64_t>(free));
}

/// Null where there is no more.
void* CudaMemory::take(int64_t bytes) {
  if (!std::exchange(begun_, true) && place_ == Place::gpu) paged_ = PagedMemory::of_current();
  if (paged_) return paged_->allocate(bytes);
  const int64_t size = size_class(bytes);
  auto& blocks = free_[size];
  if (!blocks.empty()) {
    void* const address = blocks.back();
    blocks.pop_back();
    return address;
  }
  if (void* const address = obtain(size)) return address;
  release_free_blocks();
  return obtain(size);
}

void* CudaMemory::allocate(int64_t bytes) {
  void* const address = take(bytes);
  if (address == nullptr) refuse(bytes);
  in_use_ += bytes;
  return address;
}

void CudaMemory::deallocate(void* address, int64_t bytes) noexcept {
  if (address == nullptr) return;
  in_use_ -= bytes;
  if (paged_) return paged_->deallocate(address, bytes);
  const int64_t size = size_class(bytes);
  try {
    free_[size].push_back(address);
  } catch (...) {  // no memory for the list itself
    give_back(address, size);
  }
}

void CudaMemory::release_free_blocks() noexcept {
  if (paged_) paged_->release_free();
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) give_back(block, size);
    blocks.clear();
  }
}

}  // namespace frugal::kernels::cuda
