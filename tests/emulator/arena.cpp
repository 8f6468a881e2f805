#include "tests/emulator/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "tests/emulator/gpu.h"

namespace emulator::arena {
namespace {

constexpr size_t alignment = 256, page = 4096;
/// Of addresses there are many more than of memory, as on a GPU: what is free never lies in pieces
/// that are too small.
constexpr size_t addresses = 16;
/// Large blocks take whole pages of the GPU.
constexpr size_t large = size_t{1} << 20, large_page = size_t{2} << 20;
constexpr int no_number = 0xFF;
constexpr size_t filled = size_t{64} << 10;  // at either end of a block

struct Arena {
  char* begin = nullptr;
  size_t size = 0;
  size_t used = 0;                  ///< bytes of blocks
  size_t reached = 0;               ///< nothing behind was ever given, in whole pages
  std::map<size_t, size_t> blocks;  ///< offset to size
  int open = 0;

  Arena() : size(static_cast<size_t>(gpu().memory) * addresses) {
    void* const memory =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("emulator: no room for addresses");
      std::abort();
    }
    begin = static_cast<char*>(memory);
  }
  void allow(int protection) const {
    if (reached > 0 && mprotect(begin, reached, protection) != 0) {
      std::perror("emulator: mprotect");
      std::abort();
    }
  }
};

/// Of each GPU that has been asked for memory.
std::array<std::unique_ptr<Arena>, most_gpus> arenas;

Arena& arena(int gpu) {
  auto& one = arenas.at(static_cast<size_t>(gpu));
  if (!one) one = std::make_unique<Arena>();
  return *one;
}

/// The first gap that is large enough; the arena's size where there is none.
size_t gap(const Arena& a, size_t bytes) {
  size_t end = 0;
  for (const auto& [offset, size] : a.blocks) {
    if (offset - end >= bytes) return end;
    end = offset + size;
  }
  return a.size - end >= bytes ? end : a.size;
}

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

size_t offset_in(const Arena& a, const void* address) {
  return static_cast<size_t>(static_cast<const char*>(address) - a.begin);
}

/// The one in which the address lies; null where none.
Arena* around(const void* address) {
  for (const auto& one : arenas)
    if (one && offset_in(*one, address) < one->size) return one.get();
  return nullptr;
}

}  // namespace

void* allocate(int gpu, size_t bytes) {
  Arena& a = arena(gpu);
  const size_t size = round_up(std::max<size_t>(bytes, 1), bytes >= large ? large_page : alignment);
  if (size > static_cast<size_t>(emulator::gpu().memory) - a.used) return nullptr;
  const size_t offset = gap(a, size);
  if (offset == a.size) {
    std::fprintf(stderr, "emulator: no more addresses\n");
    std::abort();
  }
  a.blocks[offset] = size;
  a.used += size;
  a.reached = std::max(a.reached, round_up(offset + size, page));
  const Open open(gpu);
  char* const address = a.begin + offset;
  const size_t first = std::min(size, filled);
  const int value = emulator::gpu().computes ? no_number : 0;
  std::memset(address, value, first);
  std::memset(address + size - first, value, first);
  return address;
}

bool release(void* address) {
  Arena* const a = around(address);
  if (a == nullptr) return false;
  const auto found = a->blocks.find(offset_in(*a, address));
  if (found == a->blocks.end()) return false;
  a->used -= found->second;
  a->blocks.erase(found);
  return true;
}

size_t in_use(int gpu) { return arena(gpu).used; }

bool touches(const void* address) { return around(address) != nullptr; }

bool contains(const void* address, size_t bytes, int gpu) {
  const Arena* const a = around(address);
  if (a == nullptr || (gpu != any_gpu && a != &arena(gpu))) return false;
  const size_t offset = offset_in(*a, address);
  const auto next = a->blocks.upper_bound(offset);
  if (next == a->blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return offset + bytes <= begin + size;
}

Open::Open(int gpu) : gpu_(gpu) {
  if (arena(gpu_).open++ == 0) arena(gpu_).allow(PROT_READ | PROT_WRITE);
}

Open::~Open() {
  if (--arena(gpu_).open == 0) arena(gpu_).allow(PROT_NONE);
}

}  // namespace emulator::arena
