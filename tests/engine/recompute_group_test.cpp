#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// Full recomputation of groups of layers, and of some layers of a stage alone.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::worst_error;

RunConfig of_layers(int64_t layers, Recompute recompute) {
  RunConfig c = small_gpt();
  c.model.layers = layers;
  c.recompute = recompute;
  return c;
}

FRUGAL_LEFT_OUT(thread, "RecomputeGroup.*", "one rank: one thread");
TEST(RecomputeGroup, IsTheSameToTheBit) {
  RunConfig c = of_layers(5, Recompute::none);
  c.type = DType::bf16;
  const MicroBatch batch = random_batch(c, 0)[0];
  const HostTensors expected = testing::snapshot_of(c, batch);
  c.recompute = Recompute::full;
  for (const int64_t group : {2, 3, 7})
    for (const int64_t layers : {0, 4}) {
      c.recompute_group = group;
      c.recompute_layers = layers;
      const auto worst = worst_error(testing::snapshot_of(c, batch), expected);
      EXPECT_EQ(worst.value, 0) << worst.tensor << " of groups of " << group << ", " << layers;
    }
}

struct Kept {
  Held inputs, attention;
  int64_t peak = 0;
  double flops = 0;
};

Kept kept_by(const RunConfig& c) {
  const auto cluster = testing::counted_steps(c);
  const Ledger& ledger = cluster->rank(0).ledger;
  const HeldPerPart& held = *ledger.kept_per_part();
  return {held[static_cast<size_t>(Part::layer)], held[static_cast<size_t>(Part::attention)],
          ledger.peak(Kind::activation), cluster->rank(0).flops.total()};
}

/// An input of s b h elements for each group; the products are those of full recomputation, but for
/// the layers that keep all.
TEST(RecomputeGroup, KeepsAnInputForEachGroup) {
  const int64_t all = 12;
  const Kept none = kept_by(of_layers(all, Recompute::none));
  const Kept full = kept_by(of_layers(all, Recompute::full));
  RunConfig c = of_layers(all, Recompute::full);
  const int64_t input = c.model.sequence * c.micro_batch * c.model.hidden * 4;
  EXPECT_EQ(none.inputs, (Held{}));
  for (const int64_t group : {1, 2, 3, 5, 12, 20})
    for (const int64_t layers : {0, 1, 7, 12, 30}) {
      SCOPED_TRACE(fmt::format("groups of {}, {} layers", group, layers));
      c.recompute_group = group;
      c.recompute_layers = layers;
      const int64_t recomputed = layers == 0 ? all : std::min(layers, all);
      const int64_t groups = (recomputed + group - 1) / group;
      const Kept kept = kept_by(c);
      EXPECT_EQ(kept.inputs, (Held{groups, groups * input}));
      EXPECT_EQ(kept.attention.bytes, none.attention.bytes / all * (all - recomputed));
      EXPECT_NEAR(kept.flops,
                  none.flops + (full.flops - none.flops) * static_cast<double>(recomputed) /
                                   static_cast<double>(all),
                  1e-6 * none.flops);
    }
}

/// A microbatch's backward pass begins with it.
TEST(RecomputeGroup, TheLastOneStaysOnTheDevice) {
  RunConfig c = of_layers(8, Recompute::full);
  c.offload = true;
  c.recompute_group = 2;
  const int64_t input = c.model.sequence * c.micro_batch * c.model.hidden * 4;
  EXPECT_EQ(testing::counted_steps(c)->rank(0).host.peak(), 3 * input);
}

/// L layers in groups of N keep L/N inputs beside what the layers of one group keep: the
/// fewest bytes together where N is about √(L · input / layer), of Chen et al. 2016, section 4.3.
TEST(RecomputeGroup, TheLowestPeakIsWhereTheFormulaHasIt) {
  const int64_t all = 256;
  RunConfig c = of_layers(all, Recompute::none);
  c.model.sequence = 8;
  const int64_t layer = kept_by(c).peak / all;
  c.recompute = Recompute::full;
  const int64_t input = kept_by(c).inputs.bytes / all;
  std::map<int64_t, int64_t> expected, peaks;  // by bytes
  for (const int64_t group : {1, 2, 4, 8, 16, 32, 256}) {
    c.recompute_group = group;
    expected[all / group * input + group * layer] = group;
    peaks[kept_by(c).peak] = group;
  }
  EXPECT_EQ(peaks.begin()->second, expected.begin()->second);
  EXPECT_NE(peaks.begin()->second, 1);
  EXPECT_EQ(peaks.rbegin()->second, 256);
}

TEST(RecomputeGroup, SelectiveRecomputationOfSomeLayers) {
  RunConfig c = of_layers(4, Recompute::selective);
  const Kept all = kept_by(c), none = kept_by(of_layers(4, Recompute::none));
  c.recompute_layers = 1;
  const Kept one = kept_by(c);
  EXPECT_EQ(none.attention.bytes - one.attention.bytes,
            (none.attention.bytes - all.attention.bytes) / 4);
}

TEST(RecomputeGroup, WhatCannotBeIsRefusedByName) {
  RunConfig c = of_layers(4, Recompute::selective);
  c.recompute_group = 2;
  testing::expect_refused(c, "recompute_group is 2, which needs recompute=full");
  c.recompute_group = 0;
  testing::expect_refused(c, "recompute_group is 0; it must be from 1");
  c = of_layers(4, Recompute::stage);
  c.recompute_layers = 1;
  testing::expect_refused(c, "recompute_layers is 1, which needs recompute=selective or full");
}

}  // namespace
}  // namespace frugal::engine
