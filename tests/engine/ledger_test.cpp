#include "engine/memory/ledger.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/memory/tensor.h"
#include "kernels/cpu/device.h"
#include "kernels/support/error.h"
#include "tests/main/left_out.h"

namespace frugal::engine {
namespace {

TEST(Ledger, CountsCurrentAndPeakPerKindAndPlace) {
  CpuDevice device(1);
  Ledger ledger(device);
  ledger.record_timeline(true);
  {
    Tensor a(ledger, Kind::activation, DType::bf16, {5, 7}, {3, 1});
    EXPECT_EQ(ledger.current(Kind::activation), 70);
    EXPECT_EQ(ledger.current(Kind::activation, {3, 1}), 70);
    EXPECT_EQ(ledger.current(Kind::activation, {}), 0);
    const Tensor b(ledger, Kind::workspace, DType::f64, {2}, {3, 1});
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

/// Each kind's own as well as the total.
TEST(Ledger, PeaksStartAgainFromWhatIsInUse) {
  CpuDevice device(1);
  Ledger ledger(device);
  std::vector<Tensor> held;
  for (int kind = 0; kind < kind_count; ++kind) {
    held.emplace_back(ledger, static_cast<Kind>(kind), DType::u8, Shape{1 + kind});
    const Tensor passing(ledger, static_cast<Kind>(kind), DType::u8, {100});
  }
  EXPECT_EQ(ledger.peak(), 100 + 28);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.peak(), 28);
  EXPECT_EQ(ledger.peak_per_kind(), ledger.current_per_kind());
  EXPECT_EQ(ledger.at_peak(), ledger.current_per_kind());
  for (int kind = 0; kind < kind_count; ++kind)
    EXPECT_EQ(ledger.peak(static_cast<Kind>(kind)), 1 + kind);
  const Tensor more(ledger, Kind::gradient, DType::u8, {10});
  EXPECT_EQ(ledger.peak(Kind::gradient), 10 + ledger.peak(Kind::parameter) + 1);
}

TEST(Ledger, RelabellingMovesBytesForAllWhoShareThem) {
  CpuDevice device(1);
  Ledger ledger(device);
  const Tensor a(ledger, Kind::workspace, DType::f32, {10});
  const Tensor part = a.with_view(a.view().sliced(0, 2, 3));
  part.labelled(Kind::activation, {});
  a.labelled(Kind::activation, {});
  EXPECT_EQ(ledger.current(Kind::activation), 40);
  EXPECT_EQ(ledger.current(Kind::workspace), 0);
  EXPECT_EQ(ledger.peak(), 40);
}

/// A layer owns what it keeps, whoever made it.
TEST(Ledger, WhatIsKeptBelongsToTheLayerThatKeepsIt) {
  CpuDevice device(1);
  Ledger ledger(device);
  ledger.record_timeline(true);
  const Tensor mask(ledger, Kind::activation, DType::u8, {100}, {-1, 2});
  Tensor input(ledger, Kind::communication, DType::u8, {7}, {-1, 2});
  {
    input.labelled(Kind::activation, {3, 2});
    const Tensor work(ledger, Kind::workspace, DType::u8, {1000}, {3, 2});
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

FRUGAL_LEFT_OUT(thread, "Ledger.TimelineSumsToWhatIsInUse", "one thread");
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

/// Changes within a stretch of a run are added as if they happened again.
TEST(Ledger, SumsOfChangesAreAdded) {
  CpuDevice device(1);
  for (uint32_t round = 0; round < 100; ++round) {
    Ledger ledger(device), whole(device);
    std::vector<Tensor> alive;
    // The same tensors, some of which stay, on whichever ledger.
    const auto stretch = [&](Ledger& on, uint32_t seed) {
      std::mt19937 steps(seed);
      std::vector<Tensor> passing;
      for (int i = 0; i < 20; ++i) {
        const Place place{static_cast<int>(steps() % 3) - 1, -1};
        const auto kind = static_cast<Kind>(steps() % kind_count);
        const Tensor made(on, kind, DType::u8, Shape{static_cast<int64_t>(1 + steps() % 1000)},
                          place);
        if (steps() % 3 == 0) alive.push_back(made);
        if (steps() % 3 == 0) passing.push_back(made);
        if (!passing.empty() && steps() % 4 == 0) passing.front().labelled(Kind::activation, place);
        if (!passing.empty() && steps() % 3 == 0) passing.erase(passing.begin());
      }
    };
    for (Ledger* each : {&ledger, &whole}) stretch(*each, round);
    const Ledger::Sums before = ledger.exchange({});
    stretch(ledger, round + 1000);
    const Ledger::Sums changes = ledger.exchange(before);
    for (int i = 0; i < 2; ++i) {
      ledger.add(changes);
      stretch(whole, round + 1000);
      EXPECT_EQ(ledger.current_per_kind(), whole.current_per_kind());
      EXPECT_EQ(ledger.peak_per_kind(), whole.peak_per_kind());
      EXPECT_EQ(ledger.at_peak(), whole.at_peak());
      EXPECT_EQ(ledger.current(), whole.current());
      EXPECT_EQ(ledger.peak(), whole.peak());
      EXPECT_EQ(ledger.peak_in_layers(), whole.peak_in_layers());
    }
    alive.clear();
  }
}

TEST(Ledger, OutOfMemorySaysWhatOfWhereAndHowMuchWasMissing) {
  CpuDevice device(1, 1000);
  Ledger ledger(device);
  const Tensor held(ledger, Kind::parameter, DType::u8, {600}, {4, 0});
  const auto expect = [&](Kind kind, Place place, const std::string& part) {
    try {
      (void)ledger.take(500, kind, place);
      ADD_FAILURE() << "500 bytes fitted into 400";
    } catch (const OutOfMemory& e) {
      EXPECT_EQ(e.missing(), 100);
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  expect(Kind::activation, {4, 0}, "activation for layer 4");
  expect(Kind::parameter, {}, "500 B of parameter for the whole model of a rank did not fit: of");
  expect(Kind::workspace, {}, "workspace outside the layers");
  expect(Kind::activation, {.part = Part::head}, "activation for the head");
  EXPECT_EQ(ledger.current(), 600);
}

}  // namespace
}  // namespace frugal::engine
