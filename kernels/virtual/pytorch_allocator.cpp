#include "kernels/virtual/pytorch_allocator.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace frugal::kernels {
namespace {

constexpr int64_t mib = 1 << 20;
constexpr int64_t smallest = 512, most_of_small = mib, small_segment = 2 * mib,
                  large_segment = 20 * mib, least_of_own = 10 * mib, own_granularity = 2 * mib;

constexpr uint64_t address_space = uint64_t{1} << 44;  // of a segment that grows

int64_t rounded(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

int64_t segment_bytes(int64_t bytes) {
  if (bytes <= most_of_small) return small_segment;
  return bytes < least_of_own ? large_segment : rounded(bytes, own_granularity);
}

}  // namespace

uint64_t PyTorchAllocator::allocate(int64_t bytes, MemoryOf use) {
  const int64_t whole = bytes < smallest ? smallest : rounded(bytes, smallest);
  const bool small = whole <= most_of_small;
  Pool& pool = pools_.try_emplace({use, small}, Pool{.small = small}).first->second;
  uint64_t address = take_free(pool, whole);
  if (address == 0) address = take_segment(pool, whole);
  if (address == 0) {
    if (expandable_)
      release_ends();
    else
      release_segments();
    address = take_segment(pool, whole);
  }
  if (address == 0) throw std::bad_alloc();
  split(address, whole);
  most_ = std::max(most_, reserved_);
  allocated_ += blocks_.at(address).bytes;
  return address;
}

uint64_t PyTorchAllocator::take_free(Pool& pool, int64_t bytes) {
  auto found = pool.free.lower_bound({bytes, 0});
  if (found == pool.free.end()) return 0;
  // The block at the end of a segment that grows counts as the largest.
  if (found->second == pool.last && std::next(found) != pool.free.end()) ++found;
  const uint64_t address = found->second;
  pool.free.erase(found);
  blocks_.at(address).free = false;
  return address;
}

uint64_t PyTorchAllocator::take_segment(Pool& pool, int64_t bytes) {
  if (expandable_) return grow(pool, bytes);
  const int64_t size = segment_bytes(bytes);
  if (reserved_ + size > capacity_) return 0;
  reserved_ += size;
  const uint64_t address = next_address_;
  next_address_ += static_cast<uint64_t>(size);
  blocks_[address] = {.bytes = size, .pool = &pool};
  return address;
}

uint64_t PyTorchAllocator::grow(Pool& pool, int64_t bytes) {
  const auto last = blocks_.find(pool.last);
  const bool extends = last != blocks_.end() && last->second.free;
  const int64_t more = rounded(bytes - (extends ? last->second.bytes : 0),
                               pool.small ? small_segment : large_segment);
  if (reserved_ + more > capacity_) return 0;
  reserved_ += more;
  if (extends) {
    pool.free.erase({last->second.bytes, last->first});
    last->second.bytes += more;
    last->second.free = false;
    return last->first;
  }
  uint64_t address = next_address_;
  if (last == blocks_.end()) {
    next_address_ += address_space;
  } else {
    address = last->first + static_cast<uint64_t>(last->second.bytes);
    last->second.behind = address;
  }
  blocks_[address] = {.bytes = more, .pool = &pool, .before = pool.last};
  pool.last = address;
  return address;
}

void PyTorchAllocator::release_ends() {
  for (auto& [key, pool] : pools_) {
    const auto last = blocks_.find(pool.last);
    if (last == blocks_.end() || !last->second.free) continue;
    Block& block = last->second;
    const int64_t gone = block.bytes / (pool.small ? small_segment : large_segment) *
                         (pool.small ? small_segment : large_segment);
    if (gone == 0) continue;
    reserved_ -= gone;
    pool.free.erase({block.bytes, last->first});
    block.bytes -= gone;
    if (block.bytes > 0) {
      pool.free.insert({block.bytes, last->first});
      continue;
    }
    pool.last = block.before;
    if (block.before != 0) blocks_.at(block.before).behind = 0;
    blocks_.erase(last);
  }
}

void PyTorchAllocator::release_segments() {
  for (auto& [key, pool] : pools_)
    std::erase_if(pool.free, [&](const auto& entry) {
      const auto block = blocks_.find(entry.second);
      if (block->second.before != 0 || block->second.behind != 0) return false;
      reserved_ -= block->second.bytes;
      blocks_.erase(block);
      return true;
    });
}

void PyTorchAllocator::split(uint64_t address, int64_t bytes) {
  Block& block = blocks_.at(address);
  const int64_t rest = block.bytes - bytes;
  Pool& pool = *block.pool;
  if (pool.small || expandable_ ? rest < smallest : rest <= most_of_small) return;
  const uint64_t behind = address + static_cast<uint64_t>(bytes);
  blocks_[behind] = {
      .bytes = rest, .free = true, .pool = &pool, .before = address, .behind = block.behind};
  if (block.behind != 0) blocks_.at(block.behind).before = behind;
  if (pool.last == address) pool.last = behind;
  block.behind = behind;
  block.bytes = bytes;
  pool.free.insert({rest, behind});
}

void PyTorchAllocator::free(uint64_t address) {
  Block& block = blocks_.at(address);
  allocated_ -= block.bytes;
  block.free = true;
  if (block.behind != 0 && blocks_.at(block.behind).free) {
    block.pool->free.erase({blocks_.at(block.behind).bytes, block.behind});
    join_behind(address);
  }
  const uint64_t before = block.before;
  if (before != 0 && blocks_.at(before).free) {
    block.pool->free.erase({blocks_.at(before).bytes, before});
    join_behind(before);
    address = before;
  }
  const Block& joined = blocks_.at(address);
  joined.pool->free.insert({joined.bytes, address});
}

void PyTorchAllocator::join_behind(uint64_t address) {
  Block& block = blocks_.at(address);
  const auto gone = blocks_.find(block.behind);
  block.bytes += gone->second.bytes;
  block.behind = gone->second.behind;
  if (block.behind != 0) blocks_.at(block.behind).before = address;
  if (block.pool->last == gone->first) block.pool->last = address;
  blocks_.erase(gone);
}

}  // namespace frugal::kernels
