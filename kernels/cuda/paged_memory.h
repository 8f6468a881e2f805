#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

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

}  // namespace frugal::kernels::cuda
