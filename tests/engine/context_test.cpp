#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/operations.h"
#include "tests/engine/support.h"

// Ranks that share every sequence compute what the serial run computes: the same loss, logits and
// gradients, and the same weights after a step.
namespace frugal::engine {
namespace {

using testing::small_llama;
using testing::snapshot_of;
using testing::worst_error;

/// What a run does besides sharing sequences.
struct ContextVariant {
  std::string name;
  void (*apply)(RunConfig&) = [](RunConfig&) {};
};

const ContextVariant plain{"plain"};
const ContextVariant as_many_keys{"as_many_keys", [](RunConfig& c) { c.model.kv_heads = 0; }};
const ContextVariant four_keys{"four_keys", [](RunConfig& c) { c.model.kv_heads = 4; }};
const ContextVariant learned{"learned_positions", [](RunConfig& c) {
                               c.model.positions = PositionKind::learned;
                               c.model.bias = BiasKind::all;
                               c.model.tied = true;
                             }};
const ContextVariant sees_both_ways{"sees_both_ways", [](RunConfig& c) { c.model.causal = false; }};
const ContextVariant chunks{"chunks", [](RunConfig& c) {
                              c.mlp_chunks = 3;
                              c.head_chunks = 5;
                            }};
const ContextVariant thirds{"learned_in_thirds", [](RunConfig& c) {
                              learned.apply(c);
                              c.model.heads = 6;
                              c.model.kv_heads = 3;
                              c.model.head_width = 8;
                              c.model.intermediate = 48;
                              c.model.vocabulary = 66;
                              c.model.sequence = 36;
                              c.tensor_parallel = 3;
                              c.sequence_parallel = true;
                            }};
const ContextVariant rotary_in_thirds{"rotary_in_thirds", [](RunConfig& c) {
                                        thirds.apply(c);
                                        c.tensor_parallel = 1;
                                        c.sequence_parallel = false;
                                        c.model.positions = PositionKind::rotary;
                                      }};
const ContextVariant all{"all", [](RunConfig& c) {
                           c.tensor_parallel = 2;
                           c.sequence_parallel = true;
                           c.data_parallel = 2;
                           c.mlp_chunks = 3;
                           c.head_chunks = 5;
                           c.recompute = Recompute::full;
                           c.offload = true;
                         }};
const ContextVariant gemma{"gemma", [](RunConfig& c) { c.model = testing::small_gemma().model; }};
const ContextVariant unwindowed{"gemma_without_windows", [](RunConfig& c) {
                                  gemma.apply(c);
                                  c.model.window = 0;
                                }};

constexpr std::array all_kinds = {ContextKind::ulysses, ContextKind::ring, ContextKind::zigzag};

struct SharedVariant {
  int ranks;
  ContextKind context;
  ContextVariant variant;
  int ulysses_size = 0;
};

void PrintTo(const SharedVariant& s, std::ostream* out) {
  const std::string heads = s.ulysses_size > 0 ? fmt::format("_u{}", s.ulysses_size) : "";
  *out << fmt::format("{}_c{}{}_{}", name_of(s.context), s.ranks, heads, s.variant.name);
}

/// Variants that differ inside attention. The combinations draw those that differ around it.
std::vector<SharedVariant> all_shared_sequences() {
  std::vector<SharedVariant> shared;
  for (const ContextKind context : all_kinds) {
    shared.push_back({2, context, learned});
    shared.push_back({4, context, as_many_keys});
    shared.push_back({8, context, four_keys});
  }
  shared.push_back({4, ContextKind::ulysses, sees_both_ways});
  shared.push_back({2, ContextKind::ulysses, gemma});
  // A tensor-parallel rank's part of the tokens, of which some are early and some late.
  shared.push_back({2, ContextKind::zigzag, thirds});
  for (const ContextKind context : {ContextKind::ring, ContextKind::zigzag}) {
    shared.push_back({4, context, all, 2});
    shared.push_back({4, context, unwindowed, 2});
    shared.push_back({8, context, four_keys, 4});
    // The middle one of three has some early rows and some late ones.
    shared.push_back({6, context, rotary_in_thirds, 3});
    // A dimension that is all, or nothing.
    shared.push_back({4, context, plain, 1});
    shared.push_back({4, context, gemma, 4});
  }
  shared.push_back({4, ContextKind::ring, sees_both_ways, 2});
  return shared;
}

RunConfig serial_of(const SharedVariant& s, DType type) {
  RunConfig c = small_llama();
  s.variant.apply(c);
  c.tensor_parallel = c.pipeline_parallel = c.data_parallel = 1;
  c.sequence_parallel = c.offload = false;
  c.shard = Shard::none;
  c.recompute = Recompute::none;
  c.mlp_chunks = c.head_chunks = 1;
  c.type = type;
  return c;
}

RunConfig parallel_of(const SharedVariant& s, DType type) {
  RunConfig c = small_llama();
  s.variant.apply(c);
  c.context_parallel = s.ranks;
  c.context = s.context;
  c.ulysses_size = s.ulysses_size;
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

/// Weights after two steps of an optimizer whose steps are as large as the gradients.
HostTensors trained(const RunConfig& config, const MicroBatch& batch) {
  const auto cluster = make_cpu_cluster(config, 2);
  const OptimizerOptions options{.kind = OptimizerKind::momentum, .learning_rate = 0.5, .clip = 0};
  Trainer trainer(*cluster, config, {.optimizer = options, .steps = 2});
  const MicroBatch other = random_batch(config, 1)[0];
  trainer.step({batch});
  trainer.step({other});
  return trainer.snapshot(batch);
}

class SharedSequence : public ::testing::TestWithParam<SharedVariant> {};

TEST_P(SharedSequence, EqualsSerial) {
  for (const auto& [type, tolerance] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-5}}) {
    const RunConfig serial = serial_of(GetParam(), type);
    const MicroBatch batch = unevenly_labelled(serial);
    const HostTensors expected = snapshot_of(serial, batch);
    const auto worst = worst_error(snapshot_of(parallel_of(GetParam(), type), batch), expected);
    EXPECT_LT(worst.value, tolerance) << worst.tensor << ", " << name_of(type);
  }
}

/// All weights are those of the serial run, whenever they are updated.
TEST(SharedSequences, TrainAsTheSerialRunDoes) {
  const RunConfig serial = serial_of({1, {}, plain}, DType::f64);
  const MicroBatch batch = unevenly_labelled(serial);
  const HostTensors expected = trained(serial, batch);
  EXPECT_GT(worst_error(expected, snapshot_of(serial, batch), "weight/").value, 1e-3)
      << "they change";
  for (const ContextKind context : all_kinds)
    for (const bool in_backward : {false, true}) {
      RunConfig parallel = parallel_of({4, context, chunks}, DType::f64);
      parallel.recompute = Recompute::full;
      parallel.step_in_backward = in_backward;
      const auto worst = worst_error(trained(parallel, batch), expected);
      EXPECT_LT(worst.value, 1e-12) << worst.tensor << ", " << name_of(context);
    }
}

/// Keys and values of bf16 that several ranks share have a gradient that is summed before it is
/// rounded; so are blocks of a ring.
TEST(SharedSequences, AreAsGoodAsTheSerialRunInBfloat16) {
  const RunConfig wide = serial_of({1, {}, plain}, DType::f32);
  const MicroBatch batch = unevenly_labelled(wide);
  const HostTensors expected = snapshot_of(wide, batch);
  const double serial =
      worst_error(snapshot_of(serial_of({1, {}, plain}, DType::bf16), batch), expected).value;
  for (const ContextKind context : all_kinds) {
    const auto worst =
        worst_error(snapshot_of(parallel_of({8, context, plain}, DType::bf16), batch), expected);
    EXPECT_LT(worst.value, 1.5 * serial) << worst.tensor << ", " << name_of(context);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedSequence, ::testing::ValuesIn(all_shared_sequences()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::engine
