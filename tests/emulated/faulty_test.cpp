// What the emulated GPU sees of kernels and launches that a GPU refuses, or that are right there by
// chance only.
#include "tests/emulated/faulty.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <thread>

#include "kernels/cuda/error.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/shared.h"

namespace frugal::kernels {
namespace {

using cuda::CudaError;
using faulty::Declaring;
using faulty::Lanes;
using faulty::Order;
using faulty::Wait;

constexpr size_t kibibyte = 1024, declared = 512;

TEST(SharedMemory, IsKnownBeforeTheKernelRuns) {
  EXPECT_EQ(emulator::declared_shared(faulty::address_of(Declaring::first)), declared);
  EXPECT_EQ(emulator::declared_shared(faulty::address_of(Declaring::nested)), 64 + 256 + 256);
}

/// CUDA C++ Programming Guide: more than 48 KiB in all are for kernels that ask for it.
TEST(SharedMemory, IsLimitedUnlessAKernelAsks) {
  const auto launch = [](size_t bytes) { return faulty::launch_unasked(Declaring::first, bytes); };
  EXPECT_EQ(launch(48 * kibibyte - declared), cudaSuccess);
  EXPECT_EQ(launch(48 * kibibyte - declared + 1), cudaErrorInvalidValue);
  EXPECT_EQ(launch(48 * kibibyte), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);

  EXPECT_EQ(faulty::ask(Declaring::first, 227 * kibibyte - declared + 1), cudaErrorInvalidValue);
  EXPECT_EQ(launch(48 * kibibyte), cudaErrorInvalidValue) << "was refused";
  EXPECT_EQ(faulty::ask(Declaring::first, 64 * kibibyte), cudaSuccess);
  EXPECT_EQ(launch(64 * kibibyte), cudaSuccess);
  EXPECT_EQ(launch(64 * kibibyte + 1), cudaErrorInvalidValue);
  EXPECT_EQ(faulty::launch_unasked(Declaring::second, 48 * kibibyte), cudaErrorInvalidValue)
      << "another kernel has asked";
  EXPECT_EQ(faulty::ask(Declaring::first, 227 * kibibyte - declared), cudaSuccess);
  EXPECT_EQ(launch(227 * kibibyte - declared), cudaSuccess);
  EXPECT_EQ(launch(227 * kibibyte), cudaErrorInvalidValue);
  cudaGetLastError();
}

/// Every GPU has limits of its own, and ranks launch from several threads.
TEST(SharedMemory, IsAskedForByLaunches) {
  const int gpus = emulator::gpu().count;
  emulator::gpu().count = 2;
  for (const int gpu : {0, 1, 0}) {
    std::thread([&] {
      ASSERT_EQ(cudaSetDevice(gpu), cudaSuccess);
      for (const size_t bytes : {48 * kibibyte, 16 * kibibyte, 100 * kibibyte, 48 * kibibyte})
        EXPECT_NO_THROW(faulty::launch({}, Declaring::third, bytes)) << bytes << " on " << gpu;
      EXPECT_THROW(faulty::launch({}, Declaring::third, 227 * kibibyte), CudaError);
      cudaGetLastError();
    }).join();
  }
  emulator::gpu().count = gpus;
}

TEST(SharedMemory, IsNoNumberWhereABlockBegins) {
  std::array<float, 5> sums{};
  faulty::read_before_writing({}, sums.size(), sums.data());
  for (const float sum : sums) EXPECT_TRUE(std::isnan(sum)) << sum;
}

std::array<int, 32> exchanged(Lanes lanes) {
  std::array<int, 32> sums{};
  faulty::exchange({}, lanes, sums.data());
  return sums;
}

TEST(WarpsDeathTest, LanesComeToTheCallsWhoseMasksNameThem) {
  const auto all = exchanged(Lanes::all), halves = exchanged(Lanes::halves);
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(all.at(static_cast<size_t>(lane)), lane ^ 1);
    EXPECT_EQ(halves.at(static_cast<size_t>(lane)), lane ^ (lane < 16 ? 3 : 1));
  }
  EXPECT_DEATH(exchanged(Lanes::caller_unnamed), "a mask that does not name it");
  EXPECT_DEATH(exchanged(Lanes::source_unnamed), "reads another that its mask does not name");
  for (const Lanes lanes : {Lanes::some_elsewhere, Lanes::some_ended, Lanes::some_at_barrier})
    EXPECT_DEATH(exchanged(lanes), "does not come to the same call");
}

TEST(WarpsDeathTest, LanesThatHaveEndedHaveNoVote) {
  std::array<unsigned, 32> votes{};
  faulty::vote({}, false, votes.data());
  EXPECT_EQ(votes[0], 0x0aaaaaaaU);
  EXPECT_DEATH(faulty::vote({}, true, votes.data()), "does not come to the same call");
}

TEST(SharedMemoryDeathTest, HasNoAddressForStoresOfGlobalMemory) {
  std::array<uint4, 32> lines{};
  faulty::put({}, false, lines.data());
  EXPECT_EQ(lines[31].w, 4U);
  EXPECT_DEATH(faulty::put({}, true, lines.data()), "has an address of shared memory");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sees_accesses = false;
#else
constexpr bool sees_accesses = true;
#endif

/// Races are seen in whatever order the threads run.
TEST(RacesDeathTest, AreSeenWithoutABarrierBetween) {
  if (!sees_accesses) GTEST_SKIP() << "the sanitizer's own are in the way";
  std::array<float, 64> from{}, to{};
  std::iota(from.begin(), from.end(), 0.0F);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    emulator::set_seed(seed);
    faulty::pass_on({}, Order::by_barriers, from.data(), to.data());
    EXPECT_EQ(to[63], 1);
    faulty::pass_on({}, Order::by_warp, from.data(), to.data());
    EXPECT_EQ(to[31], 1);
    for (const Order order : {Order::none_after_write, Order::none_after_read, Order::by_shuffle})
      EXPECT_DEATH(faulty::pass_on({}, order, from.data(), to.data()), "without a barrier between");
  }
}

TEST(CopiesDeathTest, AreThereWhenAThreadHasWaitedForThem) {
  std::array<float, 64> from{};
  std::array<float, 32> to{};
  std::iota(from.begin(), from.end(), 1.0F);
  faulty::sum_copies({}, Wait::for_all, from.data(), to.data());
  for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], from[i] + from[i + 32]);
  faulty::sum_copies({}, Wait::for_one, from.data(), to.data());
  for (const float sum : to) EXPECT_TRUE(std::isnan(sum)) << sum;
  EXPECT_DEATH(faulty::sum_copies({}, Wait::for_none, from.data(), to.data()),
               "ends before what it asked for");
}

/// Fused operations, as nvcc makes them of a product and a sum, have bits that two do not have.
TEST(Products, AreRoundedByThemselvesOnlyWhereTheyMustBe) {
  std::array<float, 32> a{}, b{}, c{}, apart{}, together{};
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = 1 + static_cast<float>(i + 1) * 0x1p-20F;
    b[i] = 1 - static_cast<float>(i + 2) * 0x1p-19F;
    const volatile float product = a[i] * b[i];
    c[i] = -product;
  }
  faulty::multiply_add({}, true, a.data(), b.data(), c.data(), apart.data());
  faulty::multiply_add({}, false, a.data(), b.data(), c.data(), together.data());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(apart[i], 0);
    EXPECT_EQ(together[i], std::fma(a[i], b[i], c[i]));
    EXPECT_NE(together[i], 0);
  }
}

}  // namespace
}  // namespace frugal::kernels
