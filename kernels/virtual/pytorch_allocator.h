#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "kernels/device.h"

namespace frugal::kernels {

/// PyTorch's caching allocator, on addresses without memory: sizes are rounded to 512 bytes; up to
/// 1 MiB come out of segments of 2 MiB, up to 10 MiB out of segments of 20 MiB, and more has a
/// segment of its own, rounded to 2 MiB. A request takes the smallest free block that holds it, the
/// one at the lowest address, and leaves the rest free where that is 512 bytes at least, or more
/// than 1 MiB of a large block. A block that is given back is joined with its free neighbours and
/// kept, for requests of its stream. A device that has nothing left gets segments that are free as
/// a whole back, once.
///
/// With expandable segments each stream has one for small and one for large requests, which grows
/// by 2 or 20 MiB at its end. A request takes the block at the end where no other holds it, and
/// leaves any rest of 512 bytes. A device that has nothing left gets free ends back; PyTorch would
/// also give back what is free in the middle.
///
/// pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp of version 2.4: round_size,
/// get_allocation_size, get_free_block, should_split, alloc_found_block, free_block,
/// try_merge_blocks, release_cached_blocks, try_allocate_expandable_block, map_block.
class PyTorchAllocator {
 public:
  explicit PyTorchAllocator(int64_t capacity, bool expandable = false)
      : capacity_(capacity), expandable_(expandable) {}

  /// The address of a block of at least so many bytes, no two at a time the same and none 0.
  /// Throws std::bad_alloc.
  uint64_t allocate(int64_t bytes, MemoryOf use = MemoryOf::compute);
  void free(uint64_t address);

  int64_t reserved() const { return reserved_; }    ///< bytes of all segments
  int64_t most_reserved() const { return most_; }   ///< the most that they ever were
  int64_t allocated() const { return allocated_; }  ///< bytes of the blocks that are not free

 private:
  /// Free blocks of one stream and of small or large requests, the smallest first, and of one size
  /// the lowest address.
  struct Pool {
    bool small = false;
    std::set<std::pair<int64_t, uint64_t>> free = {};
    uint64_t last = 0;  ///< block of an expandable segment; 0: there is none
  };
  struct Block {
    int64_t bytes = 0;
    bool free = false;
    Pool* pool = nullptr;
    uint64_t before = 0, behind = 0;  ///< its neighbours in the segment; 0: none
  };

  uint64_t take_free(Pool& pool, int64_t bytes);
  uint64_t take_segment(Pool& pool, int64_t bytes);
  /// Grows the pool's only segment so that its last block is free and holds as much.
  uint64_t grow(Pool& pool, int64_t bytes);
  void release_segments();
  void release_ends();
  void split(uint64_t address, int64_t bytes);
  /// Joins a free block with the one behind it.
  void join_behind(uint64_t address);

  const int64_t capacity_;
  const bool expandable_;
  int64_t reserved_ = 0, most_ = 0, allocated_ = 0;
  uint64_t next_address_ = uint64_t{1} << 32;
  std::map<uint64_t, Block> blocks_;
  std::map<std::pair<MemoryOf, bool>, Pool> pools_;
};

}  // namespace frugal::kernels
