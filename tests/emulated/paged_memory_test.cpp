// A GPU's memory by pages: where blocks lie, and what the emulated driver is asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kernels/cuda/gpus.h"
#include "kernels/cuda/memory.h"
#include "kernels/support/error.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/cuda_host.h"
#include "tests/emulator/gpu.h"

namespace frugal::kernels {
namespace {

using cuda::CudaMemory;
using cuda::PagedMemory;
using cuda::PagePlaces;

constexpr int64_t mib = int64_t{1} << 20;

/// The requests of a training step, drawn once: what layers keep until their backward pass, which
/// is in reverse order, and what each needs for a moment.
class Step {
 public:
  explicit Step(uint64_t seed, int64_t largest, int64_t most_layers = 24) : random_(seed) {
    const int64_t layers = number(4, most_layers), tensors = number(3, 12);
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < tensors; ++i) sizes.push_back(size(largest));
    for (int64_t l = 0; l < layers; ++l) {
      std::vector<int> kept;
      for (const int64_t each : sizes) {
        if (number(0, 3) == 0) give_back(take(each / 2 + 1));
        kept.push_back(take(each));
      }
      if (number(0, 2) == 0) give_back(take(size(largest)));
      of_layers_.push_back(kept);
    }
    for (auto layer = of_layers_.rbegin(); layer != of_layers_.rend(); ++layer) {
      const int gradient = take(sizes.front());
      for (const int block : *layer) {
        if (number(0, 3) == 0) give_back(take(size(largest)));
        give_back(block);
      }
      give_back(gradient);
    }
  }

  struct Request {
    int block;      ///< of a step, by number
    int64_t bytes;  ///< 0: it is given back
  };
  const std::vector<Request>& requests() const { return requests_; }
  int64_t peak() const { return peak_; }

 private:
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  /// Small ones are as frequent as large ones.
  int64_t size(int64_t largest) { return number(0, 1) == 0 ? number(1, mib) : number(1, largest); }
  int take(int64_t bytes) {
    const int block = static_cast<int>(bytes_.size());
    bytes_.push_back(bytes);
    requests_.push_back({block, bytes});
    peak_ = std::max(peak_, now_ += bytes);
    return block;
  }
  void give_back(int block) {
    now_ -= bytes_[static_cast<size_t>(block)];
    requests_.push_back({block, 0});
  }

  std::mt19937_64 random_;
  std::vector<std::vector<int>> of_layers_;
  std::vector<int64_t> bytes_;
  std::vector<Request> requests_;
  int64_t now_ = 0, peak_ = 0;
};

/// Blocks take 1 % more than their bytes and eight pages at most. After a step or two they lie
/// where they did in the step before. That they do not overlap the tests of PagedMemory see.
TEST(PagePlaces, HoldATrainingStepInLittleMoreThanItsPeak) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Step step(seed, 60 * mib);
    PagePlaces places;
    std::set<int> pages;
    std::vector<std::vector<int>> of_steps[4];
    size_t after_first = 0;
    for (int s = 0; s < 4; ++s) {
      std::map<int, std::pair<PagePlaces::Place, int64_t>> blocks;
      for (const Step::Request& r : step.requests()) {
        if (r.bytes > 0) {
          const auto place = places.take(r.bytes);
          pages.insert(place.pages.begin(), place.pages.end());
          of_steps[s].push_back(place.pages);
          of_steps[s].back().push_back(static_cast<int>(place.offset));
          blocks[r.block] = {place, r.bytes};
        } else {
          const auto& [place, bytes] = blocks.at(r.block);
          places.give_back(place, bytes);
        }
      }
      if (s == 0) after_first = pages.size();
    }
    EXPECT_EQ(of_steps[3], of_steps[2]) << seed;
    EXPECT_EQ(pages.size(), after_first) << seed;
    EXPECT_LE(static_cast<double>(pages.size()) * static_cast<double>(PagePlaces::page),
              1.01 * static_cast<double>(step.peak()) + 16.0 * mib)
        << seed;
  }
}

TEST(PagePlaces, PagesThatAreThereComeFirst) {
  PagePlaces places;
  const auto first = places.take(PagePlaces::page), second = places.take(PagePlaces::page);
  EXPECT_EQ(first.pages, std::vector<int>{0});
  EXPECT_EQ(second.pages, std::vector<int>{1});
  places.give_back(first, PagePlaces::page);
  EXPECT_EQ(places.drop_free(), std::vector<int>{0});
  places.give_back(second, PagePlaces::page);
  EXPECT_EQ(places.take(PagePlaces::page).pages, std::vector<int>{1});
  EXPECT_EQ(places.take(PagePlaces::page).pages, std::vector<int>{0});
  EXPECT_EQ(places.take(PagePlaces::page).pages, std::vector<int>{2});
}

/// Blocks of the GPU, each with numbers of its own.
class Blocks {
 public:
  explicit Blocks(CudaMemory& memory) : memory_(memory) {}
  void execute(const Step& step) {
    for (const Step::Request& r : step.requests()) {
      if (r.bytes > 0)
        take(r.block, r.bytes);
      else
        give_back(r.block);
    }
  }

 private:
  struct Block {
    void* address;
    int64_t bytes;
    int value;
  };
  void take(int number, int64_t bytes) {
    void* const address = memory_.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 256, 0U);
    const int value = ++last_ % 251;
    ASSERT_EQ(cudaMemsetAsync(address, value, static_cast<size_t>(bytes), nullptr), cudaSuccess);
    blocks_[number] = {address, bytes, value};
  }
  void give_back(int number) {
    const auto [address, bytes, value] = blocks_.at(number);
    std::vector<unsigned char> found(static_cast<size_t>(bytes));
    ASSERT_EQ(cudaMemcpyAsync(found.data(), address, found.size(), cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    EXPECT_EQ(std::ranges::count(found, value), bytes) << "another block was written over it";
    memory_.deallocate(address, bytes);
    blocks_.erase(number);
  }

  CudaMemory& memory_;
  std::map<int, Block> blocks_;
  int last_ = 0;
};

TEST(PagedMemory, StepsThatAreAlikeAskTheDriverForNothing) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Step step(seed, 5 * mib, 5);
    CudaMemory memory(CudaMemory::Place::gpu);
    Blocks blocks(memory);
    blocks.execute(step);
    const int64_t reserved = memory.reserved(), free = free_gpu_memory();
    EXPECT_LE(static_cast<double>(reserved), 1.01 * static_cast<double>(step.peak()) + 16.0 * mib);
    blocks.execute(step);
    const int64_t calls = emulator::arena::page_calls();
    for (int i = 0; i < 2; ++i) blocks.execute(step);
    EXPECT_EQ(emulator::arena::page_calls(), calls) << seed;
    EXPECT_EQ(memory.reserved(), reserved);
    EXPECT_EQ(free_gpu_memory(), free);
    memory.release_free_blocks();
    EXPECT_EQ(memory.reserved(), 0);
    EXPECT_EQ(free_gpu_memory(), free + reserved);
  }
}

TEST(PagedMemory, RefusesWhatIsNotThereAndGoesOn) {
  for (const bool paged : {true, false}) {
    emulator::gpu().virtual_memory = paged;
    const int64_t memory_of_gpu = emulator::gpu().memory;
    const auto used = [] { return static_cast<int64_t>(emulator::arena::in_use(0)); };
    emulator::gpu().memory = used() + 20 * mib;
    {
      CudaMemory memory(CudaMemory::Place::gpu);
      void* const first = memory.allocate(11 * mib);
      EXPECT_THROW(memory.allocate(11 * mib), OutOfMemory);
      void* const second = memory.allocate(8 * mib);
      memory.deallocate(first, 11 * mib);
      void* const third = memory.allocate(12 * mib);
      for (const auto& [block, bytes] : {std::pair(second, 8 * mib), std::pair(third, 12 * mib)}) {
        EXPECT_EQ(cudaMemsetAsync(block, 1, static_cast<size_t>(bytes), nullptr), cudaSuccess);
        memory.deallocate(block, bytes);
      }
      EXPECT_EQ(memory.reserved(), 20 * mib);
      memory.release_free_blocks();
      EXPECT_EQ(memory.reserved(), 0);
    }
    EXPECT_EQ(emulator::gpu().memory - used(), 20 * mib);
    emulator::gpu().memory = memory_of_gpu;
  }
  emulator::gpu().virtual_memory = true;
}

TEST(PagedMemory, IsThereUnlessItIsNotWanted) {
  const auto there = [] { return PagedMemory::of_current() != nullptr; };
  EXPECT_TRUE(there());
  setenv("FRUGAL_CUDA_PAGES", "0", 1);
  EXPECT_FALSE(there());
  setenv("FRUGAL_CUDA_PAGES", "1", 1);
  EXPECT_TRUE(there());
  unsetenv("FRUGAL_CUDA_PAGES");
  emulator::gpu().virtual_memory = false;
  EXPECT_FALSE(there());
  emulator::gpu().virtual_memory = true;
}

}  // namespace
}  // namespace frugal::kernels
