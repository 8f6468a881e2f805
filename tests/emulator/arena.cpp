#include "tests/emulator/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/emulator/gpu.h"

namespace emulator::arena {
namespace {

constexpr size_t alignment = 256, page = 4096;
/// Addresses for each byte of memory: so many, as on a GPU, that what is free never lies in pieces
/// that are too small.
constexpr size_t addresses = 16;
/// Large blocks take whole pages of the GPU.
constexpr size_t large = size_t{1} << 20, large_page = size_t{2} << 20;
constexpr int no_number = 0xFF;
constexpr size_t filled = size_t{64} << 10;  // at either end of a block

#ifdef __SANITIZE_THREAD__  // the thread sanitizer leaves a program less than 2 TiB
constexpr size_t fewest_addresses = size_t{64} << 30;
#else
constexpr size_t fewest_addresses = size_t{2} << 40;
#endif

/// Page of a GPU's memory. The emulator's file has those that are mapped.
struct Page {
  bool held = true;  ///< by its handle
  int mapped = 0;    ///< so many times
};

struct Block {
  size_t size = 0;
  bool reserved = false;  ///< are addresses; otherwise a block of memory
  bool readable = true;
};

struct Arena {
  char* begin = nullptr;
  size_t size = 0;
  size_t used = 0;                   ///< bytes of blocks and pages
  size_t reached = 0;                ///< nothing behind was ever given, in whole pages
  std::map<size_t, Block> blocks;    ///< by offset
  std::map<uint64_t, Page> pages;    ///< by their place in the file
  std::set<uint64_t> unused;         ///< places before the last page
  std::map<size_t, uint64_t> where;  ///< offset to the page that is mapped there
  int file = -1;
  int open = 0;

  Arena() : size(std::max(static_cast<size_t>(gpu().memory) * addresses, fewest_addresses)) {
    void* const memory =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fault_of_system("emulator: mmap");
    begin = static_cast<char*>(memory);
  }
  void allow(int protection) const {
    if (reached > 0 && mprotect(begin, reached, protection) != 0)
      fault_of_system("emulator: mprotect");
  }
};

/// Arena of each GPU that has been asked for memory.
std::array<std::unique_ptr<Arena>, most_gpus> arenas;

Arena& arena(int gpu) {
  auto& one = arenas.at(static_cast<size_t>(gpu));
  if (!one) one = std::make_unique<Arena>();
  return *one;
}

/// The first gap that is large enough; the arena's size where there is none.
size_t gap(const Arena& a, size_t bytes) {
  size_t end = 0;
  for (const auto& [offset, block] : a.blocks) {
    if (offset - end >= bytes) return end;
    end = offset + block.size;
  }
  return a.size - end >= bytes ? end : a.size;
}

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

size_t offset_in(const Arena& a, const void* address) {
  return static_cast<size_t>(static_cast<const char*>(address) - a.begin);
}

bool spans(const Arena& a, size_t offset, size_t bytes) {
  const auto found = a.blocks.find(offset);
  return found != a.blocks.end() && found->second.reserved && found->second.size == bytes;
}

/// Puts a page at these addresses, or nothing.
void put(const Arena& a, size_t offset, const uint64_t* page) {
  if (!gpu().computes) return;
  const int protection = a.open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const at = a.begin + offset;
  const void* const got = page == nullptr
                              ? mmap(at, physical_page, protection,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
                              : mmap(at, physical_page, protection, MAP_SHARED | MAP_FIXED, a.file,
                                     static_cast<off_t>(*page * physical_page));
  if (got != at) fault_of_system("emulator: mmap");
}

/// Writes through the file: memory that is mapped and filled takes a page fault for each 4 KiB.
void fill_page(const Arena& a, uint64_t page) {
  static const std::vector<char> filled_page(physical_page, static_cast<char>(no_number));
  if (pwrite(a.file, filled_page.data(), physical_page, static_cast<off_t>(page * physical_page)) !=
      static_cast<ssize_t>(physical_page))
    fault_of_system("emulator: pwrite");
}

/// The GPU's number, and the page's from 1.
uint64_t handle_of(int gpu, uint64_t page) { return static_cast<uint64_t>(gpu) << 32 | (page + 1); }
Arena* arena_of(uint64_t handle) {
  const uint64_t gpu = handle >> 32;
  return gpu < arenas.size() && handle != 0 ? arenas[gpu].get() : nullptr;
}
uint64_t page_of(uint64_t handle) { return (handle & 0xFFFFFFFFU) - 1; }

void forget_unused(Arena& a, uint64_t page) {
  const Page& state = a.pages.at(page);
  if (state.held || state.mapped > 0) return;
  a.pages.erase(page);
  a.unused.insert(page);
  a.used -= physical_page;
}

std::atomic<int64_t> calls = 0;

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
  if (offset == a.size) fault("no more addresses");
  a.blocks[offset] = {size};
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
  if (found == a->blocks.end() || found->second.reserved) return false;
  a->used -= found->second.size;
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
  const auto& [begin, block] = *std::prev(next);
  return block.readable && offset + bytes <= begin + block.size;
}

void* reserve(int gpu, size_t bytes) {
  Arena& a = arena(gpu);
  if (bytes == 0 || bytes % physical_page != 0) return nullptr;
  const size_t offset = round_up(gap(a, bytes + physical_page), physical_page);
  if (offset + bytes > a.size) return nullptr;
  a.blocks[offset] = {bytes, true, false};
  const size_t before = std::exchange(a.reached, std::max(a.reached, offset + bytes));
  if (a.open > 0 && a.reached > before) a.allow(PROT_READ | PROT_WRITE);
  return a.begin + offset;
}

bool free_addresses(void* begin, size_t bytes) {
  Arena* const a = around(begin);
  if (a == nullptr || !spans(*a, offset_in(*a, begin), bytes)) return false;
  const size_t offset = offset_in(*a, begin);
  const auto mapped = a->where.lower_bound(offset);
  if (mapped != a->where.end() && mapped->first < offset + bytes) return false;
  a->blocks.erase(offset);
  return true;
}

uint64_t create_page(int gpu) {
  ++calls;
  Arena& a = arena(gpu);
  if (physical_page > static_cast<size_t>(emulator::gpu().memory) - a.used) return 0;
  if (a.file < 0) {
    a.file = memfd_create("emulated GPU", MFD_CLOEXEC);
    if (a.file < 0 || ftruncate(a.file, emulator::gpu().memory + (1 << 21)) != 0)
      fault_of_system("emulator: memfd_create");
  }
  const uint64_t page =
      a.unused.empty() ? a.pages.size() : a.unused.extract(a.unused.begin()).value();
  a.pages[page] = {};
  a.used += physical_page;
  if (emulator::gpu().computes) fill_page(a, page);
  return handle_of(gpu, page);
}

bool release_page(uint64_t handle) {
  Arena* const a = arena_of(handle);
  if (a == nullptr || !a->pages.contains(page_of(handle))) return false;
  a->pages[page_of(handle)].held = false;
  forget_unused(*a, page_of(handle));
  return true;
}

bool map(void* begin, uint64_t handle) {
  ++calls;
  Arena* const a = around(begin);
  if (a == nullptr || arena_of(handle) != a || !a->pages.contains(page_of(handle))) return false;
  const size_t offset = offset_in(*a, begin);
  const auto next = a->blocks.upper_bound(offset);
  if (offset % physical_page != 0 || next == a->blocks.begin()) return false;
  const auto& [first, block] = *std::prev(next);
  if (!block.reserved || offset + physical_page > first + block.size) return false;
  const uint64_t page = page_of(handle);
  if (!a->where.emplace(offset, page).second) return false;
  ++a->pages[page].mapped;
  put(*a, offset, &page);
  return true;
}

bool unmap(void* begin, size_t bytes) {
  ++calls;
  Arena* const a = around(begin);
  if (a == nullptr || !spans(*a, offset_in(*a, begin), bytes)) return false;
  const size_t offset = offset_in(*a, begin);
  a->blocks[offset].readable = false;
  for (size_t at = offset; at < offset + bytes; at += physical_page) {
    const auto found = a->where.find(at);
    if (found == a->where.end()) continue;
    const uint64_t page = found->second;
    a->where.erase(found);
    put(*a, at, nullptr);
    --a->pages[page].mapped;
    forget_unused(*a, page);
  }
  return true;
}

bool allow(void* begin, size_t bytes) {
  Arena* const a = around(begin);
  if (a == nullptr || !spans(*a, offset_in(*a, begin), bytes)) return false;
  const size_t offset = offset_in(*a, begin);
  for (size_t at = offset; at < offset + bytes; at += physical_page)
    if (!a->where.contains(at)) return false;
  a->blocks[offset].readable = true;
  return true;
}

int64_t page_calls() { return calls; }

Open::Open(int gpu) : gpu_(gpu) {
  if (arena(gpu_).open++ == 0) arena(gpu_).allow(PROT_READ | PROT_WRITE);
}

Open::~Open() {
  if (--arena(gpu_).open == 0) arena(gpu_).allow(PROT_NONE);
}

}  // namespace emulator::arena
