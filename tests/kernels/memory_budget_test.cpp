#include "kernels/cpu/memory_budget.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/cpu/memory.h"
#include "kernels/support/error.h"
#include "tests/support/folder.h"

namespace frugal::kernels {
namespace {

constexpr int64_t kib = 1024;

auto misses(int64_t bytes) {
  return ::testing::Throws<OutOfMemory>(::testing::Property(&OutOfMemory::missing, bytes));
}

/// A file system root with what the kernel says about memory.
class AvailableMemory : public ::testing::Test {
 protected:
  AvailableMemory() {
    write("/proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:  800000 kB\nBuffers: 1 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const testing::Folder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(AvailableMemory, IsTheKernelsEstimateWhereNothingLimitsIt) {
  EXPECT_EQ(available_memory(root_), 800000 * kib);
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(available_memory(root_), 800000 * kib);
  EXPECT_GT(available_memory(), 1000 * kib);
}

TEST_F(AvailableMemory, IsWhatTheTightestGroupLeaves) {
  write("/proc/self/cgroup", "1:cpu:/\n0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "300000000\n");
  write("/sys/fs/cgroup/a/memory.max", "200000000\n");
  write("/sys/fs/cgroup/a/memory.stat", "file 100000000\nanon 50000000\n");
  EXPECT_EQ(available_memory(root_), 150000000);
}

TEST_F(AvailableMemory, IsReadFromTheFirstVersionOfGroupsToo) {
  write("/proc/self/cgroup", "4:memory:/x/y\n0::/\n");
  // Inside a container the path is not there, only the mount.
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "100000000\n");
  write("/sys/fs/cgroup/memory/memory.stat", "rss 1\ntotal_rss 30000000\n");
  EXPECT_EQ(available_memory(root_), 70000000);
}

TEST(MemoryBudget, IsSharedByAllAllocators) {
  const auto budget = std::make_shared<MemoryBudget>(100 * kib);
  CachingAllocator first(budget), second(budget);
  void* const a = first.allocate(30 * kib);
  void* const b = first.allocate(29 * kib);
  void* const c = second.allocate(30 * kib);
  EXPECT_THAT([&] { second.allocate(20 * kib); }, misses(9 * kib)) << "109 KiB fitted into 100";
  first.deallocate(a, 30 * kib);
  second.deallocate(c, 30 * kib);
  const int64_t beside_b = Arena::room_for(29 * kib) - 29 * kib;
  EXPECT_EQ(first.reserved() + second.reserved() - beside_b, budget->taken())
      << "what is kept counts";
  void* const again = first.allocate(29 * kib);
  EXPECT_EQ(again, a);
  first.deallocate(again, 29 * kib);
  void* const d = first.allocate(40 * kib);  // room is made from its own hole
  EXPECT_NE(d, a);
  first.deallocate(d, 40 * kib);
  first.deallocate(b, 29 * kib);
}

TEST(MemoryBudget, WhatWasRequestedAloneCountsWhileItIsUsed) {
  const auto budget = std::make_shared<MemoryBudget>(3);
  CachingAllocator memory(budget);
  void* const one = memory.allocate(1);
  void* const other = memory.allocate(2);
  EXPECT_THROW(memory.allocate(1), OutOfMemory);
  memory.deallocate(one, 1);
  memory.deallocate(other, 2);
  EXPECT_EQ(budget->taken(), 0) << "whole lines are beyond the budget and cannot be kept";
}

/// Bytes of this process in memory (proc(5), statm).
int64_t resident() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, pages = 0;
  statm >> size >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(MemoryBudget, WhatIsReleasedIsTheSystemsAgain) {
  constexpr int64_t mib = 1024 * kib, large = 20 * mib, small = 4 * mib;
  CachingAllocator memory(std::make_shared<MemoryBudget>(large + 2 * small));
  void* const block = memory.allocate(large);
  void* const behind = memory.allocate(small);
  std::memset(block, 1, large);
  std::memset(behind, 1, small);
  const int64_t before = resident();
  memory.deallocate(block, large);
  EXPECT_GT(resident(), before - small) << "kept";
  void* const larger = memory.allocate(large + small);  // not there, and not beside it
  EXPECT_LT(resident(), before - large + small);
  EXPECT_EQ(static_cast<char*>(behind)[small - 1], 1);
  memory.deallocate(larger, large + small);
  memory.deallocate(behind, small);
}

#ifdef __SANITIZE_ADDRESS__
TEST(MemoryBudgetDeathTest, TheAddressSanitizerSeesWhatIsTouchedBesideABlock) {
  constexpr int64_t size = 4 * 1024 * kib;
  CachingAllocator memory(std::make_shared<MemoryBudget>(2 * size));
  auto* const block = static_cast<char*>(memory.allocate(size));
  auto* const next = static_cast<char*>(memory.allocate(size));
  EXPECT_DEATH(block[size] = 1, "use-after-poison");
  memory.deallocate(block, size);
  EXPECT_DEATH(block[0] = 1, "use-after-poison");
  memory.deallocate(next, size);
}
#endif

TEST(MemoryBudget, AllIsMissingWhereTheOperatingSystemHasNoMore) {
  CachingAllocator memory(std::make_shared<MemoryBudget>(int64_t{1} << 61));
  EXPECT_THAT([&] { memory.allocate(int64_t{1} << 60); }, misses(int64_t{1} << 60));
  EXPECT_NO_THROW(memory.deallocate(memory.allocate(64), 64));
}

}  // namespace
}  // namespace frugal::kernels
