#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// The serial run is the oracle of every parallel one: the same loss, logits and gradients, with
// dropout on.
namespace frugal::engine {
namespace {

using testing::small_bert;
using testing::small_gpt;
using testing::snapshot_of;
using testing::worst_error;

struct Division {
  int t;
  bool sequence_parallel;
  Recompute recompute;
  bool stored_masks;
  AttentionKind attention = AttentionKind::separate;
};

/// The oracle of a division.
Division serial_of(const Division& v) { return {1, false, Recompute::none, false, v.attention}; }

RunConfig with(const Division& v, DType type) {
  RunConfig c = small_gpt();
  c.tensor_parallel = v.t;
  c.sequence_parallel = v.sequence_parallel;
  c.recompute = v.recompute;
  c.stored_masks = v.stored_masks;
  c.attention = v.attention;
  c.type = type;
  return c;
}

void PrintTo(const Division& v, std::ostream* out) {
  *out << fmt::format("t{}{}_{}{}{}", v.t, v.sequence_parallel ? "_sequence" : "",
                      name_of(v.recompute), v.stored_masks ? "_masks" : "",
                      v.attention == AttentionKind::fused ? "_fused" : "");
}

/// Recomputations of one rank, then every way to divide a layer, each with another recomputation.
const Division all_divisions[] = {
    {1, false, Recompute::none, true},      {1, false, Recompute::selective, false},
    {1, false, Recompute::full, true},      {1, false, Recompute::full, true, AttentionKind::fused},
    {2, false, Recompute::none, false},     {2, true, Recompute::full, true},
    {4, true, Recompute::selective, false}, {4, true, Recompute::none, true, AttentionKind::fused},
    {8, false, Recompute::selective, true}, {8, true, Recompute::none, false},
};

class ParallelEqualsSerial : public ::testing::TestWithParam<Division> {};

TEST_P(ParallelEqualsSerial, InFloat32) {
  const RunConfig serial = with(serial_of(GetParam()), DType::f32);
  const MicroBatch batch = random_batch(serial, 0)[0];
  const HostTensors expected = snapshot_of(serial, batch);
  const auto worst = worst_error(snapshot_of(with(GetParam(), DType::f32), batch), expected);
  if (GetParam().t == 1)
    EXPECT_EQ(worst.value, 0) << worst.tensor;
  else
    EXPECT_LT(worst.value, 1e-5) << worst.tensor;
}

TEST_P(ParallelEqualsSerial, InFloat64) {
  const RunConfig serial = with(serial_of(GetParam()), DType::f64);
  const MicroBatch batch = random_batch(serial, 0)[0];
  const HostTensors expected = snapshot_of(serial, batch);
  const auto worst = worst_error(snapshot_of(with(GetParam(), DType::f64), batch), expected);
  EXPECT_LT(worst.value, 1e-12) << worst.tensor;
}

TEST_P(ParallelEqualsSerial, RecomputationIsBitwise) {
  Division without = GetParam();
  without.recompute = Recompute::none;
  without.stored_masks = false;
  for (const DType type : {DType::f32, DType::bf16}) {
    const MicroBatch batch = random_batch(small_gpt(), 0)[0];
    const HostTensors expected = snapshot_of(with(without, type), batch);
    const auto worst = worst_error(snapshot_of(with(GetParam(), type), batch), expected);
    EXPECT_EQ(worst.value, 0) << worst.tensor << " in " << name_of(type);
  }
}

FRUGAL_LEFT_OUT(any, "All/ParallelEqualsSerial.InFloat64/*", "float64 beside float32");
FRUGAL_LEFT_OUT(thread, "All/ParallelEqualsSerial.*/t1_*", "one rank: one thread");
INSTANTIATE_TEST_SUITE_P(All, ParallelEqualsSerial, ::testing::ValuesIn(all_divisions),
                         ::testing::PrintToStringParamName());

/// Each run masks its own batch: tokens and labels are among what is compared.
TEST(Oracle, ABertThatIsDividedIsTheSerialOne) {
  RunConfig serial = small_bert();
  serial.type = DType::f64;
  RunConfig parallel = serial;
  parallel.tensor_parallel = 4;
  parallel.sequence_parallel = true;
  parallel.recompute = Recompute::selective;
  for (const int step : {0, 1}) {
    const HostTensors expected = snapshot_of(serial, random_batch(serial, step)[0]);
    const auto worst =
        worst_error(snapshot_of(parallel, random_batch(parallel, step)[0]), expected);
    EXPECT_LT(worst.value, 1e-12) << worst.tensor;
  }
}

/// With dropout on: both drop the same probabilities. Long enough for blocks with a rest.
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
