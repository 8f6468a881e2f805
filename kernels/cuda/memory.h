#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cpu/memory_budget.h"

namespace frugal::kernels::cuda {

/// Places of blocks in pages of 2 MiB, the least that a GPU maps. Pages have numbers; those of a
/// block need not be neighbours, because it sees them one behind the other. A block begins where
/// another has left the end of a page, and ends where one has left the beginning, so that blocks
/// share pages at both ends. Where it lies follows from what is free alone: the same requests from
/// the same state get the same places.
class PagePlaces {
 public:
  static constexpr int64_t page = int64_t{2} << 20, alignment = 512;

  struct Place {
    std::vector<int> pages;  ///< a small block has one
    int64_t offset = 0;      ///< of the block's first byte in the first page
  };
  /// Takes pages that are there before any that are not.
  Place take(int64_t bytes);
  void give_back(const Place& place, int64_t bytes);
  /// Pages without a block. They are not there from then on.
  std::vector<int> drop_free();
  /// Drops one that could not be had.
  void drop(int number);

 private:
  struct Hole {
    int number = -1;  ///< of its page; −1: none
    int64_t begin = 0, size = 0;
  };
  struct Choice;
  void add(const Hole& hole);
  void remove(const Hole& hole);
  /// Size of a hole, or of a page that is free as a whole.
  void take_part(const Hole& hole, int64_t begin, int64_t size);
  void free_part(int number, int64_t begin, int64_t size);
  int take_page();
  /// The smallest of these that is large enough.
  using Holes = std::set<std::pair<int64_t, std::pair<int, int64_t>>>;  // by size
  static Hole smallest(const Holes& holes, int64_t size);
  Choice choose(int64_t size) const;
  Place take_choice(const Choice& choice, int64_t size);

  std::set<int> free_, absent_;                       // whole pages
  int next_ = 0;                                      // the first number that no page has had
  std::map<std::pair<int, int64_t>, int64_t> holes_;  // of pages with blocks: by place, their size
  Holes all_, beginnings_, ends_;                     // those at the beginning or the end of a page
};

struct Driver;

/// A GPU's memory by pages of 2 MiB, of which each block has addresses of its own. So no memory is
/// kept for one size of blocks only, and none is given back while a process trains: pages that a
/// block has left get further addresses for the next one. They keep the former ones, which the
/// next block at the same place has again: steps that are alike map nothing. Nobody waits for the
/// work that uses a block either, as its pages stay where they are; who uses them next is behind
/// it in the stream's order (CUDA programming guide, "Virtual Aliasing Support").
class PagedMemory {
 public:
  /// Makes that of the current device; null where its driver has no virtual memory, or other pages,
  /// or FRUGAL_CUDA_PAGES is 0: compute-sanitizer knows the blocks of cudaMalloc alone.
  static std::unique_ptr<PagedMemory> of_current();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;
  ~PagedMemory();

  /// Null where there is no more; pages without blocks are then given back.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;
  int64_t reserved() const { return reserved_; }
  /// Gives pages without blocks back, and all addresses that no block has. Waits for the GPU.
  void release_free() noexcept;

 private:
  /// Addresses of pages, one behind the other.
  struct Range {
    char* begin = nullptr;
    int blocks = 0;  ///< that are there
  };
  using Ranges = std::map<std::vector<int>, Range>;
  struct Block {
    Ranges::iterator range;
    int64_t offset = 0;  ///< in it
  };

  PagedMemory(const Driver& driver, int device);
  unsigned long long& handle_of(int number);
  bool have(const std::vector<int>& pages);
  Ranges::iterator range_of(const std::vector<int>& pages);
  void allow(char* begin, size_t pages) const;
  void allow_new_devices();
  void unmap_unused() noexcept;

  const Driver& driver_;
  int device_;
  int64_t capacity_ = 0;              ///< bytes that the device has
  uint64_t seen_ = 0, reaching_ = 0;  // devices of this process, and those that may reach it: bits
  PagePlaces places_;
  std::vector<unsigned long long> handles_;  // of pages; 0: it is not there
  Ranges ranges_;
  std::unordered_map<void*, Block> blocks_;
  int64_t reserved_ = 0, mapped_ = 0;  // bytes; of all addresses
};

/// A GPU's memory, or memory of the host that it reaches by itself, which is page-locked; 256-byte
/// aligned. A GPU's is PagedMemory. Blocks of the host's, and of a GPU's without virtual memory,
/// are kept for the next request of their size, because cudaMalloc and cudaFree wait for the whole
/// GPU, and locking pages takes longer than a transfer. The current device is used.
class CudaMemory {
 public:
  enum class Place : uint8_t { gpu, host };

  explicit CudaMemory(Place place) : place_(place) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() { release_free_blocks(); }

  /// Throws OutOfMemory, after what is kept was released; the message has both what was requested
  /// and what is in use. On the host it counts with all that this process may take from the
  /// machine: pages that are locked cannot be swapped.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;
  /// Bytes taken from the GPU or the host and not given back.
  int64_t reserved() const { return reserved_ + (paged_ ? paged_->reserved() : 0); }
  void release_free_blocks() noexcept;

 private:
  void* take(int64_t bytes);
  void* obtain(int64_t size);
  void give_back(void* address, int64_t size) noexcept;
  [[noreturn]] void refuse(int64_t bytes) const;

  Place place_;
  std::shared_ptr<MemoryBudget> budget_ = place_ == Place::host ? machine_memory() : nullptr;
  bool begun_ = false;
  std::unique_ptr<PagedMemory> paged_;
  std::unordered_map<int64_t, std::vector<void*>> free_;  // by size
  int64_t in_use_ = 0, reserved_ = 0;
};

}  // namespace frugal::kernels::cuda
