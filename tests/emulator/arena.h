#pragma once
#include <cstddef>
#include <cstdint>

/// The emulated GPUs' memory. The host cannot read or write it, as it cannot a GPU's, and neither
/// can another GPU: a program that does ends with a segmentation fault.
namespace emulator::arena {

/// 256-byte aligned memory of that GPU; filled with NaN, or 0 where nothing is computed, large
/// blocks at their ends; null where there is no room.
void* allocate(int gpu, size_t bytes);
/// False for what allocate() did not give.
bool release(void* address);
size_t in_use(int gpu);

// Virtual memory, by whole pages. False, or null, for what CUDA's documentation does not allow.

constexpr size_t physical_page = size_t{2} << 20;
/// Addresses behind which nothing is.
void* reserve(int gpu, size_t bytes);
bool free_addresses(void* begin, size_t bytes);
/// A page, filled as a block is; 0 where there is no room. Released, it goes with its last address.
uint64_t create_page(int gpu);
bool release_page(uint64_t handle);
bool map(void* begin, uint64_t handle);
bool unmap(void* begin, size_t bytes);
/// Lets its GPU read and write what is mapped there.
bool allow(void* begin, size_t bytes);
/// Calls of map(), unmap() and create_page() so far.
int64_t page_calls();

constexpr int any_gpu = -1;
/// True if all bytes are of one block of that GPU.
bool contains(const void* address, size_t bytes, int gpu = any_gpu);
/// True if any may be a GPU's.
bool touches(const void* address);

/// A GPU's turn: while one exists, its memory can be read and written.
class Open {
 public:
  explicit Open(int gpu);
  ~Open();
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

 private:
  const int gpu_;
};

}  // namespace emulator::arena
