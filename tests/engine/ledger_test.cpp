#include "engine/memory/ledger.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/memory/tensor.h"
#include "kernels/cpu/device.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

TEST(Ledger, CountsCurrentAndPeakPerKindAndPlace) {
  CpuDevice device(1);
  Ledger ledger(device);
  {
    const Ledger::Scope scope(ledger, {3, 1});
    Tensor a(ledger, Kind::activation, DType::bf16, {5, 7});
    EXPECT_EQ(ledger.current(Kind::activation), 70);
    EXPECT_EQ(ledger.current(Kind::activation, {3, 1}), 70);
    EXPECT_EQ(ledger.current(Kind::activation, {}), 0);
    const Tensor b(ledger, Kind::workspace, DType::f64, {2});
    EXPECT_EQ(ledger.current(), 86);
    a.release();
  }
  EXPECT_EQ(ledger.current(), 0);
  EXPECT_EQ(ledger.peak(), 86);
  EXPECT_EQ(ledger.peak(Kind::activation), 70);
  EXPECT_EQ(ledger.at_peak()[static_cast<size_t>(Kind::workspace)], 16);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.peak(), 0);
}

TEST(Ledger, RelabellingMovesBytesForAllWhoShareThem) {
  CpuDevice device(1);
  Ledger ledger(device);
  const Tensor a(ledger, Kind::workspace, DType::f32, {10});
  const Tensor part = a.with_view(a.view().sliced(0, 2, 3));
  part.labelled(Kind::activation);
  a.labelled(Kind::activation);
  EXPECT_EQ(ledger.current(Kind::activation), 40);
  EXPECT_EQ(ledger.current(Kind::workspace), 0);
  EXPECT_EQ(ledger.peak(), 40);
}

/// What a layer keeps is its own, whoever made it.
TEST(Ledger, WhatIsKeptBelongsToTheLayerThatKeepsIt) {
  CpuDevice device(1);
  Ledger ledger(device);
  const Ledger::Scope microbatch(ledger, {-1, 2});
  const Tensor mask(ledger, Kind::activation, DType::u8, {100});
  Tensor input(ledger, Kind::communication, DType::u8, {7});
  {
    const Ledger::Scope layer(ledger, {3, 2});
    input.labelled(Kind::activation);
    const Tensor work(ledger, Kind::workspace, DType::u8, {1000});
  }
  EXPECT_EQ(ledger.current(Kind::activation, {3, 2}), 7);
  EXPECT_EQ(ledger.current(Kind::communication, {-1, 2}), 0);
  input.release();
  EXPECT_EQ(ledger.current(Kind::activation, {3, 2}), 0);
  EXPECT_EQ(ledger.peak_in_layers(), 7);
  EXPECT_EQ(ledger.peak(Kind::activation), 107);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.peak_in_layers(), 0);
}

TEST(Ledger, TimelineSumsToWhatIsInUse) {
  CpuDevice device(1);
  Ledger ledger(device);
  ledger.record_timeline(true);
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<Tensor> alive;
  int64_t highest = 0;
  for (int i = 0; i < 200; ++i) {
    if (!alive.empty() && random() % 2 == 0) {
      alive.erase(alive.begin() + static_cast<int64_t>(random() % alive.size()));
    } else {
      alive.emplace_back(ledger, static_cast<Kind>(random() % kind_count), DType::u8,
                         Shape{static_cast<int64_t>(1 + random() % 1000)});
    }
    highest = std::max(highest, ledger.current());
  }
  int64_t sum = 0;
  double last = 0;
  for (const Ledger::Change& change : ledger.timeline()) {
    sum += change.bytes;
    EXPECT_GE(change.time, last);
    last = change.time;
  }
  EXPECT_EQ(sum, ledger.current());
  EXPECT_EQ(ledger.peak(), highest);
}

TEST(Ledger, OutOfMemorySaysWhatAndHowMuchWasMissing) {
  CpuDevice device(1, 1000);
  Ledger ledger(device);
  const Ledger::Scope scope(ledger, {4, 0});
  const Tensor a(ledger, Kind::parameter, DType::u8, {600});
  try {
    const Tensor b(ledger, Kind::activation, DType::u8, {500});
    FAIL() << "500 bytes fitted into 400";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.missing(), 100);
    EXPECT_NE(std::string(e.what()).find("activation for layer 4"), std::string::npos) << e.what();
  }
  EXPECT_EQ(ledger.current(), 600);
}

TEST(Ledger, OutOfMemoryOutsideTheLayersSaysSo) {
  CpuDevice device(1, 1000);
  Ledger ledger(device);
  try {
    const Tensor b(ledger, Kind::parameter, DType::u8, {1001});
    FAIL() << "1001 bytes fitted into 1000";
  } catch (const OutOfMemory& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("parameter outside the layers"), std::string::npos) << text;
    EXPECT_NE(text.find("a larger tensor-parallel size"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace frugal
