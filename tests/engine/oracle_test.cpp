#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// The serial run is the oracle of every parallel one: the same loss, logits and gradients, with
// dropout on. The combinations draw other divisions.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::snapshot_of;
using testing::worst_error;

struct Division {
  int t;
  bool sequence_parallel;
  Recompute recompute;
  AttentionKind attention = AttentionKind::separate;

  RunConfig config() const {
    RunConfig c = small_gpt();
    c.tensor_parallel = t;
    c.sequence_parallel = sequence_parallel;
    c.recompute = recompute;
    c.stored_masks = true;
    c.attention = attention;
    return c;
  }
};
void PrintTo(const Division& d, std::ostream* out) {
  *out << fmt::format("t{}{}_{}_{}", d.t, d.sequence_parallel ? "_sequence" : "",
                      name_of(d.recompute), name_of(d.attention));
}

class ParallelEqualsSerial : public ::testing::TestWithParam<Division> {};

TEST_P(ParallelEqualsSerial, InFloat32) {
  RunConfig serial = small_gpt();
  serial.attention = GetParam().attention;
  const MicroBatch batch = random_batch(serial, 0)[0];
  const HostTensors expected = snapshot_of(serial, batch);
  const auto worst = worst_error(snapshot_of(GetParam().config(), batch), expected);
  EXPECT_LE(worst.value, GetParam().t == 1 ? 0 : 1e-5) << worst.tensor;
}

TEST_P(ParallelEqualsSerial, RecomputationIsBitwise) {
  for (const DType type : {DType::f32, DType::bf16}) {
    RunConfig with = GetParam().config();
    with.type = type;
    RunConfig without = with;
    without.recompute = Recompute::none;
    without.stored_masks = false;
    const MicroBatch batch = random_batch(with, 0)[0];
    const auto worst = worst_error(snapshot_of(with, batch), snapshot_of(without, batch));
    EXPECT_EQ(worst.value, 0) << worst.tensor << " in " << name_of(type);
  }
}

FRUGAL_LEFT_OUT(thread, "All/ParallelEqualsSerial.*/t1_*", "one rank: one thread");
INSTANTIATE_TEST_SUITE_P(All, ParallelEqualsSerial,
                         ::testing::Values(Division{1, false, Recompute::selective},
                                           Division{2, true, Recompute::full},
                                           Division{4, true, Recompute::none, AttentionKind::fused},
                                           Division{8, false, Recompute::selective}),
                         ::testing::PrintToStringParamName());

/// Dropout is on: both drop the same probabilities. Long enough for blocks with a rest.
TEST(Oracle, FusedAttentionEqualsSeparate) {
  RunConfig separate = small_gpt();
  separate.model.sequence = 136;
  separate.model.heads = 4;
  for (const bool causal : {true, false})
    for (const auto& [type, tolerance] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-5}}) {
      separate.model.causal = causal;
      separate.type = type;
      RunConfig fused = separate;
      fused.attention = AttentionKind::fused;
      const MicroBatch batch = random_batch(separate, 0)[0];
      const HostTensors expected = snapshot_of(separate, batch);
      const auto worst = worst_error(snapshot_of(fused, batch), expected);
      EXPECT_LT(worst.value, tolerance) << worst.tensor << " in " << name_of(type);
    }
}

TEST(Oracle, DropoutAndSeedMatter) {
  RunConfig c = small_gpt();
  const MicroBatch batch = random_batch(c, 0)[0];
  const HostTensors one = snapshot_of(c, batch);
  c.model.dropout = 0;
  EXPECT_GT(worst_error(snapshot_of(c, batch), one, "logits").value, 1e-3);
  c = small_gpt();
  c.seed = 8;
  EXPECT_GT(worst_error(snapshot_of(c, batch), one, "weight/").value, 1e-3);
}

TEST(Oracle, Bfloat16IsCloseToFloat32) {
  RunConfig c = small_gpt();
  const MicroBatch batch = random_batch(c, 0)[0];
  const HostTensors expected = snapshot_of(c, batch);
  c.type = DType::bf16;
  c.tensor_parallel = 4;
  c.sequence_parallel = true;
  // Two layers of sums of bf16 products: 2⁻⁸ per rounding, a few in a row.
  const auto worst = worst_error(snapshot_of(c, batch), expected, "gradient/");
  EXPECT_LT(worst.value, 0.08) << worst.tensor;
}

}  // namespace
}  // namespace frugal::engine
