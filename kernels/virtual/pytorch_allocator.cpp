#include "kernels/virtual/pytorch_allocator.h"

#include <new>

namespace frugal::kernels {
namespace {

constexpr int64_t mib = 1 << 20;
constexpr int64_t smallest = 512, most_of_small = mib, small_segment = 2 * mib,
                  large_segment = 20 * mib, least_of_own = 10 * mib, own_granularity = 2 * mib;

int64_t rounded(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

int64_t segment_bytes(int64_t bytes) {
  if (bytes <= most_of_small) return small_segment;
  return bytes < least_of_own ? large_segment : rounded(bytes, own_granularity);
}

}  // namespace

uint64_t PyTorchAllocator::allocate(int64_t bytes) {
  const int64_t whole = bytes < smallest ? smallest : rounded(bytes, smallest);
  const bool small = whole <= most_of_small;
  uint64_t address = take_free(whole, small);
  if (address == 0) address = take_segment(whole, small);
  if (address == 0) {
    release_segments();
    address = take_segment(whole, small);
  }
  if (address == 0) throw std::bad_alloc();
  split(address, whole);
  allocated_ += blocks_.at(address).bytes;
  return address;
}

uint64_t PyTorchAllocator::take_free(int64_t bytes, bool small) {
  Pool& free = pools_[small ? 0 : 1];
  const auto found = free.lower_bound({bytes, 0});
  if (found == free.end()) return 0;
  const uint64_t address = found->second;
  free.erase(found);
  blocks_.at(address).free = false;
  return address;
}

uint64_t PyTorchAllocator::take_segment(int64_t bytes, bool small) {
  const int64_t size = segment_bytes(bytes);
  if (reserved_ + size > capacity_) return 0;
  reserved_ += size;
  const uint64_t address = next_address_;
  next_address_ += static_cast<uint64_t>(size);
  blocks_[address] = {.bytes = size, .small = small};
  return address;
}

void PyTorchAllocator::release_segments() {
  for (Pool& free : pools_)
    std::erase_if(free, [&](const Pool::value_type& entry) {
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
  if (block.small ? rest < smallest : rest <= most_of_small) return;
  const uint64_t behind = address + static_cast<uint64_t>(bytes);
  blocks_[behind] = {
      .bytes = rest, .free = true, .small = block.small, .before = address, .behind = block.behind};
  if (block.behind != 0) blocks_.at(block.behind).before = behind;
  block.behind = behind;
  block.bytes = bytes;
  pool(block).insert({rest, behind});
}

void PyTorchAllocator::free(uint64_t address) {
  Block& block = blocks_.at(address);
  allocated_ -= block.bytes;
  block.free = true;
  if (block.behind != 0 && blocks_.at(block.behind).free) {
    pool(block).erase({blocks_.at(block.behind).bytes, block.behind});
    join_behind(address);
  }
  const uint64_t before = block.before;
  if (before != 0 && blocks_.at(before).free) {
    pool(block).erase({blocks_.at(before).bytes, before});
    join_behind(before);
    address = before;
  }
  const Block& joined = blocks_.at(address);
  pool(joined).insert({joined.bytes, address});
}

void PyTorchAllocator::join_behind(uint64_t address) {
  Block& block = blocks_.at(address);
  const auto gone = blocks_.find(block.behind);
  block.bytes += gone->second.bytes;
  block.behind = gone->second.behind;
  if (block.behind != 0) blocks_.at(block.behind).before = address;
  blocks_.erase(gone);
}

}  // namespace frugal::kernels
