#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace frugal::kernels {

/// PyTorch's caching allocator, on addresses without memory: sizes are rounded to 512 bytes; up to
/// 1 MiB come out of segments of 2 MiB, up to 10 MiB out of segments of 20 MiB, and more has a
/// segment of its own, rounded to 2 MiB. A request takes the smallest free block that holds it, the
/// one at the lowest address, and leaves the rest free where that is 512 bytes at least, or more
/// than 1 MiB of a large block. A block that is given back is joined with its free neighbours and
/// kept. A device that has nothing left gets segments that are free as a whole back, once.
///
/// pytorch/pytorch, c10/cuda/CUDACachingAllocator.cpp of version 2.4 with its settings by default:
/// round_size, get_allocation_size, get_free_block, should_split, alloc_found_block, free_block,
/// try_merge_blocks, release_cached_blocks. One stream.
class PyTorchAllocator {
 public:
  explicit PyTorchAllocator(int64_t capacity) : capacity_(capacity) {}

  /// The address of a block of at least so many bytes, no two at a time the same and none 0.
  /// Throws std::bad_alloc.
  uint64_t allocate(int64_t bytes);
  void free(uint64_t address);

  int64_t reserved() const { return reserved_; }    ///< bytes of all segments
  int64_t allocated() const { return allocated_; }  ///< bytes of the blocks that are not free

 private:
  struct Block {
    int64_t bytes = 0;
    bool free = false, small = false;
    uint64_t before = 0, behind = 0;  ///< its neighbours in the segment; 0: none
  };
  /// Free blocks of a pool, the smallest first, and of one size the lowest address.
  using Pool = std::set<std::pair<int64_t, uint64_t>>;

  Pool& pool(const Block& block) { return pools_[block.small ? 0 : 1]; }
  uint64_t take_free(int64_t bytes, bool small);
  uint64_t take_segment(int64_t bytes, bool small);
  void release_segments();
  void split(uint64_t address, int64_t bytes);
  /// Joins a free block with the one behind it.
  void join_behind(uint64_t address);

  const int64_t capacity_;
  int64_t reserved_ = 0, allocated_ = 0;
  uint64_t next_address_ = uint64_t{1} << 32;
  std::map<uint64_t, Block> blocks_;
  Pool pools_[2];
};

}  // namespace frugal::kernels
