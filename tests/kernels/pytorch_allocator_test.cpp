#include "kernels/virtual/pytorch_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <random>

#include "kernels/virtual/device.h"

namespace frugal::kernels {
namespace {

constexpr int64_t mib = 1 << 20, plenty = int64_t{1} << 50;

TEST(PyTorchAllocator, RoundsSizesAndSegments) {
  PyTorchAllocator allocator(plenty);
  allocator.allocate(1);
  EXPECT_EQ(allocator.allocated(), 512);
  EXPECT_EQ(allocator.reserved(), 2 * mib);
  allocator.allocate(mib);
  EXPECT_EQ(allocator.reserved(), 2 * mib) << "of the same segment";
  allocator.allocate(mib + 1);
  EXPECT_EQ(allocator.reserved(), 22 * mib);
  allocator.allocate(10 * mib);
  EXPECT_EQ(allocator.reserved(), 22 * mib) << "of the rest of the 20";
  allocator.allocate(11 * mib + 1);
  EXPECT_EQ(allocator.reserved(), 34 * mib);
}

/// A large block whose rest would be 1 MiB at most is given whole.
TEST(PyTorchAllocator, LeavesNoSmallRestOfALargeBlock) {
  PyTorchAllocator allocator(plenty);
  allocator.free(allocator.allocate(16 * mib));
  allocator.allocate(15 * mib);
  EXPECT_EQ(allocator.allocated(), 16 * mib);
  PyTorchAllocator other(plenty);
  other.free(other.allocate(16 * mib));
  other.allocate(15 * mib - 512);
  EXPECT_EQ(other.allocated(), 15 * mib - 512);
}

TEST(PyTorchAllocator, TakesTheSmallestBlockAndJoinsFreeOnes) {
  PyTorchAllocator allocator(plenty);
  const uint64_t large = allocator.allocate(64 * mib), small = allocator.allocate(32 * mib);
  allocator.free(large);
  allocator.free(small);
  EXPECT_EQ(allocator.allocate(20 * mib), small);
  const uint64_t a = allocator.allocate(30 * mib), b = allocator.allocate(30 * mib);
  EXPECT_EQ(a, large);
  EXPECT_EQ(b, large + 30 * mib);
  allocator.free(a);
  allocator.free(b);
  EXPECT_EQ(allocator.allocate(64 * mib), large) << "joined again";
  EXPECT_EQ(allocator.reserved(), 96 * mib);
}

/// Free segments go back where nothing is left; a piece of one that is in use does not.
TEST(PyTorchAllocator, GivesBackWholeSegmentsBeforeItFails) {
  PyTorchAllocator allocator(100 * mib);
  const uint64_t first = allocator.allocate(60 * mib);
  allocator.free(first);
  const uint64_t piece = allocator.allocate(20 * mib);
  EXPECT_EQ(piece, first);
  EXPECT_THROW(allocator.allocate(50 * mib), std::bad_alloc);
  EXPECT_EQ(allocator.reserved(), 60 * mib) << "40 MiB of it are free, but not a segment";
  allocator.free(piece);
  allocator.allocate(90 * mib);
  EXPECT_EQ(allocator.reserved(), 90 * mib);
}

/// Blocks never overlap, whatever is done; none is larger than its request by more than a rest
/// that is not left, and what is free again is whole again.
TEST(PyTorchAllocator, KeepsItsBlocksApart) {
  std::mt19937_64 random(20261125);
  PyTorchAllocator allocator(plenty);
  std::map<uint64_t, int64_t> live;
  int64_t asked = 0;
  for (int i = 0; i < 20000; ++i) {
    if (live.size() > 100 || (!live.empty() && random() % 3 == 0)) {
      auto gone = live.begin();
      std::advance(gone, random() % live.size());
      allocator.free(gone->first);
      asked -= gone->second;
      live.erase(gone);
      continue;
    }
    const auto bytes = static_cast<int64_t>(1 + random() % (1ULL << (4 + random() % 24)));
    const uint64_t address = allocator.allocate(bytes);
    const auto behind = live.lower_bound(address);
    ASSERT_TRUE(behind == live.end() || behind->first >= address + static_cast<uint64_t>(bytes));
    ASSERT_TRUE(behind == live.begin() ||
                std::prev(behind)->first + static_cast<uint64_t>(std::prev(behind)->second) <=
                    address);
    ASSERT_TRUE(live.emplace(address, bytes).second);
    asked += bytes;
    ASSERT_GE(allocator.allocated(), asked);
    ASSERT_LE(allocator.allocated(), asked + static_cast<int64_t>(live.size()) * (mib + 512));
    ASSERT_GE(allocator.reserved(), allocator.allocated());
  }
  for (const auto& [address, bytes] : live) allocator.free(address);
  EXPECT_EQ(allocator.allocated(), 0);
  const int64_t reserved = allocator.reserved();
  allocator.allocate(reserved / 2);
  EXPECT_GE(allocator.reserved(), reserved);
}

/// Memory that one stream gave back no other gets.
TEST(PyTorchAllocator, KeepsStreamsApart) {
  for (const bool expandable : {false, true}) {
    PyTorchAllocator allocator(plenty, expandable);
    const uint64_t gathered = allocator.allocate(40 * mib, MemoryOf::gathers);
    allocator.free(gathered);
    allocator.allocate(40 * mib);
    EXPECT_EQ(allocator.reserved(), 80 * mib);
    EXPECT_EQ(allocator.allocate(40 * mib, MemoryOf::gathers), gathered);
    EXPECT_EQ(allocator.reserved(), 80 * mib);
  }
}

/// An expandable segment grows by 20 MiB behind its last block, as far as that is not free.
TEST(PyTorchAllocator, GrowsOneSegment) {
  PyTorchAllocator allocator(200 * mib, true);
  allocator.allocate(512);
  EXPECT_EQ(allocator.reserved(), 2 * mib) << "of small requests";
  const uint64_t first = allocator.allocate(30 * mib);
  EXPECT_EQ(allocator.reserved(), 42 * mib);
  const uint64_t second = allocator.allocate(31 * mib);
  EXPECT_EQ(second, first + 30 * mib);
  EXPECT_EQ(allocator.reserved(), 82 * mib) << "10 of the 31 were there";
  EXPECT_EQ(allocator.allocated(), 61 * mib + 512);
  const uint64_t third = allocator.allocate(10 * mib);
  allocator.free(first);
  allocator.free(third);
  EXPECT_EQ(allocator.allocate(19 * mib), first) << "and not the end, which is as large";
  EXPECT_EQ(allocator.allocate(2 * mib), first + 19 * mib);
  EXPECT_EQ(allocator.allocate(60 * mib), third) << "at the end";
  EXPECT_EQ(allocator.reserved(), 142 * mib) << "41 more, in steps of 20";
}

/// A free end goes back where nothing is left, and the peak is remembered.
TEST(PyTorchAllocator, GivesBackTheEndsOfGrowingSegments) {
  PyTorchAllocator allocator(100 * mib, true);
  const uint64_t gathered = allocator.allocate(60 * mib, MemoryOf::gathers);
  allocator.allocate(20 * mib);
  EXPECT_THROW(allocator.allocate(40 * mib), std::bad_alloc);
  allocator.free(gathered);
  allocator.allocate(40 * mib);
  EXPECT_EQ(allocator.reserved(), 60 * mib);
  EXPECT_EQ(allocator.most_reserved(), 80 * mib);
  allocator.allocate(40 * mib, MemoryOf::gathers);
  EXPECT_EQ(allocator.reserved(), 100 * mib);
}

TEST(VirtualDevice, ReservesAsTheAllocatorOfItsProgramDoes) {
  VirtualDevice device(find_machine("a100-80gb"), {.caching_allocator = true});
  void* const block = device.allocate(3 * mib);
  EXPECT_EQ(device.bytes_in_use(), 3 * mib);
  EXPECT_EQ(device.reserved(), 20 * mib);
  EXPECT_TRUE(device.reserves());
  device.deallocate(block, 3 * mib);
  EXPECT_EQ(device.bytes_in_use(), 0);
  EXPECT_EQ(device.reserved(), 20 * mib);
  EXPECT_EQ(device.replay(), nullptr);
  EXPECT_FALSE(VirtualDevice(find_machine("a100-80gb")).reserves());
}

}  // namespace
}  // namespace frugal::kernels
