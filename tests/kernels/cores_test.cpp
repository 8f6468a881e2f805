#include "kernels/cpu/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/support/error.h"

namespace frugal::kernels {
namespace {

TEST(Cores, AreDividedAmongRanks) {
  const Processors all = processors_of_this_thread();
  ASSERT_FALSE(all.empty());
  int cores = 1;  // as many as can be had
  for (; cores < std::ssize(all); ++cores) {
    try {
      (void)divide_cores(cores + 1, 1);
    } catch (const InputError&) {
      break;
    }
  }
  for (int each = 1; each <= cores; ++each) {
    const int ranks = cores / each;
    std::set<int> used;
    for (const Processors& own : divide_cores(ranks, each)) {
      EXPECT_EQ(std::ssize(own), each);
      used.insert(own.begin(), own.end());
    }
    EXPECT_EQ(std::ssize(used), ranks * each) << "no core twice";
    for (const int processor : used) EXPECT_EQ(std::count(all.begin(), all.end(), processor), 1);
    EXPECT_THROW((void)divide_cores(ranks + 1, each), InputError);
  }
}

TEST(Cores, AThreadAndItsWorkersStayWhereTheyArePinned) {
  const Processors all = processors_of_this_thread();
  std::thread([&] {
    const Processors one{all.back()};
    pin_this_thread(one);
    EXPECT_EQ(processors_of_this_thread(), one);
    std::mutex mutex;
    std::vector<Processors> workers;
#pragma omp parallel num_threads(3)
    {
      const Processors own = processors_of_this_thread();
      const std::lock_guard lock(mutex);
      workers.push_back(own);
    }
    EXPECT_EQ(workers, std::vector<Processors>(workers.size(), one));
    EXPECT_THROW((void)divide_cores(2, 1), InputError) << "a pinned thread has one core to divide";
  }).join();
  EXPECT_EQ(processors_of_this_thread(), all);
}

}  // namespace
}  // namespace frugal::kernels
