// What the process keeps beyond its devices, with anything in the place of cuDNN's graphs.
#include "kernels/cuda/kept.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace frugal::kernels {
namespace {

using cuda::Kept;
using cuda::of_process;

TEST(KeptTest, IsMadeOnce) {
  Kept<int, std::string> kept(10);
  int made = 0;
  const auto get = [&](int key) {
    return *kept.get(key, [&] { return std::make_shared<std::string>(std::to_string(++made)); });
  };
  EXPECT_EQ(get(5), "1");
  EXPECT_EQ(get(5), "1");
  EXPECT_EQ(get(6), "2");
  EXPECT_EQ(get(5), "1");
}

TEST(KeptTest, WhatCannotBeMadeIsTriedAgain) {
  Kept<int, int> kept(2);
  EXPECT_THROW(kept.get(1, []() -> std::shared_ptr<int> { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(*kept.get(1, [] { return std::make_shared<int>(7); }), 7);
}

TEST(KeptTest, WhatWasUsedLongestAgoGoes) {
  Kept<int, int> kept(2);
  std::vector<int> made;
  const auto get = [&](int key) {
    return kept.get(key, [&] {
      made.push_back(key);
      return std::make_shared<int>(key);
    });
  };
  const std::weak_ptr<int> second = get(2);
  EXPECT_FALSE(kept.full_without(1));
  const auto held = get(1);
  EXPECT_FALSE(kept.full_without(2));
  EXPECT_TRUE(kept.full_without(3));
  get(2);
  get(1);
  get(3);
  EXPECT_TRUE(second.expired());
  get(1);
  EXPECT_EQ(made, (std::vector<int>{2, 1, 3}));
  get(2);
  get(3);
  EXPECT_EQ(made, (std::vector<int>{2, 1, 3, 2, 3}));
  EXPECT_EQ(*held, 1) << "it stays with who has it";
}

/// As cuDNN on a GPU is: a lock, and what is made under it.
struct OneGpus {
  std::mutex mutex;
  Kept<int, int> graphs{8};
  int made = 0;
};

TEST(KeptTest, ThreadsAndDevicesOfAGpuShare) {
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < 2; ++gpu)
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([gpu] {
        for (int key = 0; key < 5; ++key) {
          OneGpus& of_gpu = of_process<OneGpus>(gpu);
          const std::lock_guard lock(of_gpu.mutex);
          of_gpu.graphs.get(key, [&] {
            ++of_gpu.made;
            return std::make_shared<int>(key);
          });
        }
      });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(of_process<OneGpus>(0).made, 5);
  EXPECT_EQ(of_process<OneGpus>(1).made, 5) << "a GPU has its own";
}

}  // namespace
}  // namespace frugal::kernels
