#pragma once
#include <cstddef>

/// The emulated GPUs' memory. The host cannot read or write it, as it cannot a GPU's, and neither
/// can another GPU: a program that does ends with a segmentation fault.
namespace emulator::arena {

/// 256-byte aligned memory of that GPU; filled with NaN, or 0 where nothing is computed, large
/// blocks at their ends; null where there is no room.
void* allocate(int gpu, size_t bytes);
/// False for what allocate() did not give.
bool release(void* address);
size_t in_use(int gpu);
constexpr int any_gpu = -1;
/// Whether all bytes are of one block of that GPU.
bool contains(const void* address, size_t bytes, int gpu = any_gpu);
/// Whether any may be a GPU's.
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
