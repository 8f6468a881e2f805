#include <gtest/gtest.h>

#include "tests/engine/support.h"

// Ranks that share every sequence compute what the serial run computes: the same loss, logits and
// gradients. The combinations draw what differs around attention; here is what differs inside it.
namespace frugal::engine {
namespace {

using testing::small_llama;
using testing::snapshot_of;
using testing::worst_error;

constexpr auto ulysses = ContextKind::ulysses, ring = ContextKind::ring,
               zigzag = ContextKind::zigzag;

using Change = void (*)(RunConfig&);
void plain(RunConfig& /*c*/) {}
void four_keys(RunConfig& c) { c.model.kv_heads = 4; }
void sees_both_ways(RunConfig& c) { c.model.causal = false; }
void gemma(RunConfig& c) { c.model = testing::small_gemma().model; }
void gemma_without_windows(RunConfig& c) {
  gemma(c);
  c.model.window = 0;
}
void thirds(RunConfig& c) {
  c.model.heads = 6;
  c.model.kv_heads = 3;
  c.model.head_width = 8;
  c.model.intermediate = 48;
  c.model.vocabulary = 66;
  c.model.sequence = 36;
}
/// A tensor-parallel rank's part of the tokens has some early rows and some late ones.
void learned_in_tensor_thirds(RunConfig& c) {
  thirds(c);
  c.model.positions = PositionKind::learned;
  c.model.bias = BiasKind::all;
  c.model.tied = true;
  c.tensor_parallel = 3;
  c.sequence_parallel = true;
}

struct SharedVariant {
  const char* name;
  int ranks;
  ContextKind context;
  Change change = plain;
  int ulysses_size = 0;
};
void PrintTo(const SharedVariant& s, std::ostream* out) { *out << s.name; }

const SharedVariant all_shared_sequences[] = {
    {"ulysses_gemma", 2, ulysses, gemma},
    {"ulysses_keys_that_ranks_share", 8, ulysses, four_keys},
    {"ring", 2, ring},
    {"ring_both_ways_two_ulysses", 4, ring, sees_both_ways, 2},
    {"ring_keys_that_four_ulysses_share", 8, ring, four_keys, 4},
    {"zigzag_gemma_two_ulysses", 4, zigzag, gemma_without_windows, 2},
    {"zigzag_tensor_thirds", 2, zigzag, learned_in_tensor_thirds},
    {"zigzag_middle_of_three_ulysses", 6, zigzag, thirds, 3},
    {"zigzag_of_one_ulysses", 4, zigzag, plain, 1}};

RunConfig serial_of(const SharedVariant& s, DType type) {
  RunConfig c = small_llama();
  s.change(c);
  c.tensor_parallel = 1;
  c.sequence_parallel = false;
  c.type = type;
  return c;
}

RunConfig parallel_of(const SharedVariant& s, DType type) {
  RunConfig c = small_llama();
  s.change(c);
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

INSTANTIATE_TEST_SUITE_P(All, SharedSequence, ::testing::ValuesIn(all_shared_sequences),
                         ::testing::PrintToStringParamName());

/// Keys and values of bf16 that several ranks share have a gradient that is summed before it is
/// rounded; so are blocks of a ring.
TEST(SharedSequences, AreAsGoodAsTheSerialRunInBfloat16) {
  const SharedVariant alone{"alone", 1, {}};
  const RunConfig wide = serial_of(alone, DType::f32);
  const MicroBatch batch = unevenly_labelled(wide);
  const HostTensors expected = snapshot_of(wide, batch);
  const double serial =
      worst_error(snapshot_of(serial_of(alone, DType::bf16), batch), expected).value;
  for (const ContextKind context : {ulysses, ring, zigzag}) {
    const auto worst =
        worst_error(snapshot_of(parallel_of({"eight", 8, context}, DType::bf16), batch), expected);
    EXPECT_LT(worst.value, 1.5 * serial) << worst.tensor << ", " << name_of(context);
  }
}

}  // namespace
}  // namespace frugal::engine
