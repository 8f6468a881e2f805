#include "kernels/cpu/memory_budget.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/cpu/memory.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

constexpr int64_t kib = 1024;

/// A file system root with what the kernel says about memory.
class AvailableMemory : public ::testing::Test {
 protected:
  AvailableMemory() {
    std::string name = (std::filesystem::temp_directory_path() / "frugal-XXXXXX").string();
    root_ = mkdtemp(name.data());
    write("/proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:  800000 kB\nBuffers: 1 kB\n");
  }
  ~AvailableMemory() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
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
  void* const a = first.allocate(59 * kib);
  void* const b = second.allocate(30 * kib);
  try {
    second.allocate(20 * kib);
    FAIL() << "109 KiB fitted into 100";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.missing(), 9 * kib);
  }
  first.deallocate(a, 59 * kib);
  second.deallocate(b, 30 * kib);
  EXPECT_EQ(budget->taken(), 90 * kib) << "blocks kept for later count, with their rounding";
  void* const c = first.allocate(57 * kib);  // the kept block of the same class
  EXPECT_EQ(c, a);
  first.deallocate(c, 57 * kib);
  void* const d = first.allocate(68 * kib);  // room is made from its own blocks
  first.deallocate(d, 68 * kib);
}

/// Bytes of this process in memory (proc(5), statm).
int64_t resident() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, pages = 0;
  statm >> size >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

/// Once malloc has been given back a large block it takes smaller ones from what it keeps, which
/// has them in memory as long as one behind them is in use.
TEST(MemoryBudget, WhatIsReleasedIsTheSystemsAgain) {
  if (!CachingAllocator::maps_large_blocks())
    GTEST_SKIP() << "the address sanitizer keeps what is released";
  constexpr int64_t mib = 1024 * kib, large = 24 * mib, less = 20 * mib, small = 4 * mib;
  CachingAllocator memory(std::make_shared<MemoryBudget>(large + small));
  const auto make_room = [&] { memory.deallocate(memory.allocate(2 * small), 2 * small); };
  memory.deallocate(memory.allocate(large), large);
  make_room();
  const int64_t before = resident();
  void* const block = memory.allocate(less);
  void* const behind = memory.allocate(small);
  std::memset(block, 1, less);
  memory.deallocate(block, less);
  make_room();
  EXPECT_LT(resident() - before, less / 2);
  memory.deallocate(behind, small);
}

TEST(MemoryBudget, AnOverflowOfALargeBlockIsSeenByTheAddressSanitizer) {
  if (CachingAllocator::maps_large_blocks()) GTEST_SKIP() << "built without it";
  constexpr int64_t large = 4 * 1024 * kib;
  CachingAllocator memory(std::make_shared<MemoryBudget>(large));
  auto* const block = static_cast<char*>(memory.allocate(large));
  EXPECT_DEATH(block[large] = 1, "heap-buffer-overflow");
  memory.deallocate(block, large);
}

TEST(MemoryBudget, AllIsMissingWhereTheOperatingSystemHasNoMore) {
  CachingAllocator memory(std::make_shared<MemoryBudget>(int64_t{1} << 61));
  try {
    memory.allocate(int64_t{1} << 60);
    FAIL() << "an exbibyte";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.missing(), int64_t{1} << 60);
  }
  EXPECT_NO_THROW(memory.deallocate(memory.allocate(64), 64));
}

}  // namespace
}  // namespace frugal
