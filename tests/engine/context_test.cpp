#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/operations.h"
#include "tests/engine/support.h"

// Ranks that share every sequence compute what the serial run computes: the same loss, logits and
// gradients, and the same weights after a step.
namespace frugal {
namespace {

using testing::snapshot_of;
using testing::worst_error;

/// Of the Llama family, with fewer heads of keys and values than some runs have ranks.
RunConfig small_llama() {
  RunConfig c;
  c.model = {.name = "test",
             .layers = 2,
             .hidden = 48,
             .heads = 8,
             .sequence = 32,
             .vocabulary = 40,
             .dropout = 0,
             .kv_heads = 2,
             .head_width = 8,
             .intermediate = 80,
             .norm = NormKind::rms,
             .mlp = MlpKind::swiglu,
             .bias = BiasKind::none,
             .positions = PositionKind::rotary,
             .tied = false};
  c.attention = AttentionKind::fused;
  c.micro_batch = 2;
  c.seed = 7;
  return c;
}

/// What a run does besides sharing sequences.
struct Variant {
  std::string name;
  void (*apply)(RunConfig&) = [](RunConfig&) {};
};

const Variant plain{"plain"};
const Variant as_many_keys{"as_many_keys", [](RunConfig& c) { c.model.kv_heads = 0; }};
const Variant four_keys{"four_keys", [](RunConfig& c) { c.model.kv_heads = 4; }};
const Variant learned{"learned_positions", [](RunConfig& c) {
                        c.model.positions = PositionKind::learned;
                        c.model.bias = BiasKind::all;
                        c.model.tied = true;
                      }};
const Variant sees_both_ways{"sees_both_ways", [](RunConfig& c) { c.model.causal = false; }};
const Variant capped{"capped", [](RunConfig& c) { c.model.attention_softcap = 2; }};
const Variant full{"full", [](RunConfig& c) { c.recompute = Recompute::full; }};
const Variant offload{"offload", [](RunConfig& c) {
                        c.recompute = Recompute::full;
                        c.offload = true;
                      }};
const Variant chunks{"chunks", [](RunConfig& c) {
                       c.mlp_chunks = 3;
                       c.head_chunks = 5;
                     }};
const Variant replicas{"replicas", [](RunConfig& c) { c.data_parallel = 2; }};
const Variant tensor{"tensor", [](RunConfig& c) { c.tensor_parallel = 2; }};
const Variant sequence{"sequence", [](RunConfig& c) {
                         c.tensor_parallel = 2;
                         c.sequence_parallel = true;
                       }};
const Variant pipeline{"pipeline", [](RunConfig& c) { c.pipeline_parallel = 2; }};
const Variant all{"all", [](RunConfig& c) {
                    c.tensor_parallel = 2;
                    c.sequence_parallel = true;
                    c.data_parallel = 2;
                    c.mlp_chunks = 3;
                    c.head_chunks = 5;
                    c.recompute = Recompute::full;
                    c.offload = true;
                  }};
const Variant windowed{"windowed", [](RunConfig& c) { c.model.window = 11; }};

struct Shared {
  int ranks;
  ContextKind context;
  Variant variant;
};

std::string describe(const ::testing::TestParamInfo<Shared>& info) {
  const Shared& s = info.param;
  return fmt::format("{}_c{}_{}", name_of(s.context), s.ranks, s.variant.name);
}

/// Every rank number with what differs inside attention, two of them with what differs around it.
std::vector<Shared> all_shared() {
  std::vector<Shared> shared;
  for (const ContextKind context : {ContextKind::ulysses}) {
    for (const int ranks : {1, 2, 4, 8})
      for (const Variant& v : {plain, as_many_keys, four_keys, sees_both_ways})
        shared.push_back({ranks, context, v});
    for (const Variant& v :
         {learned, capped, full, offload, chunks, replicas, tensor, sequence, pipeline, all})
      shared.push_back({2, context, v});
    for (const Variant& v : {tensor, sequence, chunks}) shared.push_back({4, context, v});
  }
  shared.push_back({2, ContextKind::ulysses, windowed});
  return shared;
}

RunConfig serial_of(const Shared& s, DType type) {
  RunConfig c = small_llama();
  s.variant.apply(c);
  c.tensor_parallel = c.pipeline_parallel = c.data_parallel = 1;
  c.sequence_parallel = c.offload = false;
  c.recompute = Recompute::none;
  c.mlp_chunks = c.head_chunks = 1;
  c.type = type;
  return c;
}

RunConfig parallel_of(const Shared& s, DType type) {
  RunConfig c = small_llama();
  s.variant.apply(c);
  c.context_parallel = s.ranks;
  c.context = s.context;
  c.type = type;
  return c;
}

/// Labels that count differently in each part of the sequence; in its second quarter, a rank's of
/// four or eight, none do.
MicroBatch unevenly_labelled(const RunConfig& c) {
  MicroBatch batch = random_batch(c, 0)[0];
  const size_t size = batch.labels.size();
  for (size_t i = 0; i < size; ++i)
    if (i * 4 / size == 1 || i % 7 == 0 || i > size - 5)
      batch.labels[i] = CrossEntropy::ignored_label;
  return batch;
}

class SharedSequence : public ::testing::TestWithParam<Shared> {
 protected:
  static void expect_serial(DType type, double tolerance) {
    const RunConfig serial = serial_of(GetParam(), type);
    const MicroBatch batch = unevenly_labelled(serial);
    const HostTensors expected = snapshot_of(serial, batch);
    const auto worst = worst_error(snapshot_of(parallel_of(GetParam(), type), batch), expected);
    EXPECT_LT(worst.value, tolerance) << worst.tensor;
  }
};

TEST_P(SharedSequence, EqualsSerialInFloat64) { expect_serial(DType::f64, 1e-12); }

TEST_P(SharedSequence, EqualsSerialInFloat32) { expect_serial(DType::f32, 1e-5); }

INSTANTIATE_TEST_SUITE_P(All, SharedSequence, ::testing::ValuesIn(all_shared()), describe);

}  // namespace
}  // namespace frugal
