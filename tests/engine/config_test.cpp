#include "engine/config.h"

#include <gtest/gtest.h>

#include <sstream>

#include "engine/options/fields.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

FieldValue value_in(const Described& field, const std::string& text) {
  if (std::holds_alternative<allowed::OnOff>(field.allowed)) return text == "true";
  if (std::holds_alternative<allowed::Number>(field.allowed)) return int64_t{std::stoll(text)};
  if (std::holds_alternative<allowed::Real>(field.allowed)) return std::stod(text);
  return text;
}

template <class T>
void set_field(T& of, const std::string& key, const std::string& text) {
  for (const Field<T>& field : fields_of<T>())
    if (field.key == key) field.set(of, value_in(field, text));
}

/// Sets fields of a run or its model: "key=value key=value".
RunConfig with_fields(RunConfig c, const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t sign = word.find('=');
    set_field(c, word.substr(0, sign), word.substr(sign + 1));
    set_field(c.model, word.substr(0, sign), word.substr(sign + 1));
  }
  return c;
}

struct Mistake {
  const char* set;
  const char* message;
};

/// Fields of a small model's run as JSON has them, and a part of what is said of the first mistake.
const Mistake mistakes[] = {
    {"layers=9 pipeline_parallel_size=3 stage_layers=4+5",
     "stage_layers has 2 numbers for 3 stages x chunks of the pipeline"},
    {"layers=9 pipeline_parallel_size=2 stage_layers=4+4",
     "stage_layers add up to 8 and the model has 9"},
    {"layers=9 pipeline_parallel_size=2",
     "layers (9) must be divisible by stages x chunks of the pipeline (2)"},
    {"attention_heads=6 hidden_size=66 tensor_parallel_size=4",
     "heads (6) must be divisible by tensor-parallel size (4)"},
    {"hidden_size=65", "hidden size (65) must be divisible by attention heads (8)"},
    {"sequence_length=31 tensor_parallel_size=2 sequence_parallel=true",
     "sequence length (31) must be divisible by tensor-parallel size (2)"},
    {"vocabulary_size=63 tensor_parallel_size=2",
     "vocabulary size (63) must be divisible by tensor-parallel size (2)"},
    {"head_size=-1",
     "head_size is -1; it must be from 1 to 1048576, or 0 for hidden size / attention heads"},
    {"key_value_heads=-2",
     "key_value_heads is -2; it must be from 1 to 1048576, or 0 for attention heads"},
    {"intermediate_size=-1",
     "intermediate_size is -1; it must be from 1 to 8388608, or 0 for 4 x hidden size"},
    {"tensor_parallel_size=2 head_tiles=33", "head_tiles is 33; it must be from 1 to 32"},
    {"dropout=1", "dropout is 1"},
    {"dropout=1e-6", "dropout is 1e-06"},
    {"microbatch_size=0", "microbatch_size is 0"},
    {"hidden_size=4611686018427387904",
     "hidden_size is 4611686018427387904; it must be from 1 to 1048576"},
    {"layers=65537", "layers is 65537; it must be from 1 to 65536"},
    {"microbatches=1099511627776", "microbatches is 1099511627776"},
    {"schedule=dualpipe-v layers=4 pipeline_parallel_size=2 chunks=2 microbatches=3",
     "microbatches (3) must be at least 2 x stages (2)"},
    {"schedule=v-half pipeline_parallel_size=2", "chunks is 1; it must be 2"},
    {"chunks=2 schedule=interleaved",
     "chunks is 2, which needs a pipeline-parallel size of at least 2"},
    {"layers=4 pipeline_parallel_size=4 microbatches=4 schedule=2bw validate_steps=after",
     "the schedule is 2bw, which does not flush: backward passes of the next batch follow a step "
     "at once; choose one of inter-layer, gpipe, 1f1b, interleaved, zb-h1"},
    {"step_in_backward=true validate_steps=after",
     "step_in_backward is on, which has dropped the gradients"},
    {"layers=4 pipeline_parallel_size=2 microbatches=4 validate_steps=after "
     "program=exchanged-messages",
     "whose stages wait for every message that they exchange"},
    {"kept_microbatches=2",
     "kept_microbatches is 2, which needs recompute=selective, full or stage"},
    {"overlap_grad_reduce=true",
     "data-parallel size and context-parallel size are 1, so that nothing is summed; leave it off"},
    {"data_parallel_size=2 overlap_grad_reduce=true step_in_backward=true",
     "overlap_grad_reduce is on and step_in_backward is on"},
    {"data_parallel_size=2 overlap_grad_reduce=true shard=gradients",
     "overlap_grad_reduce is on and shard is gradients, which sums in every backward pass anyway"},
    {"data_parallel_size=2 overlap_grad_reduce=true shard=optimizer bucket_size=5",
     "bucket_size is 5 and shard is optimizer, with which a bucket is what replicas divide"},
    {"data_parallel_size=2 overlap_grad_reduce=false bucket_size=5",
     "bucket_size is 5, which needs overlap_grad_reduce; set that, or drop bucket_size"},
    {"bucket_size=5", "bucket_size is 5 and no gradients are summed beside a backward pass"},
    {"data_parallel_size=2 overlap_grad_reduce=true program=late-sums",
     "late-sums, and overlap_grad_reduce is on"},
    {"data_parallel_size=2 overlap_grad_reduce=true bucket_size=-1",
     "bucket_size is -1; it must be from 1 to 1099511627776, or 0 for"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=32",
     "sequence length (32) must be divisible by twice the context-parallel size (64)"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=2 causal=false",
     "context is zigzag and the model's attention is not causal"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=2 window=4",
     "context is zigzag, and ring attention has no sliding windows"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=8 ulysses_size=3",
     "context-parallel size (8) must be divisible by Ulysses size (3)"},
    {"ulysses_size=2", "ulysses_size is 2, which needs context=ring or zigzag"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=4 ulysses_size=-1",
     "ulysses_size is -1; it must be from 1 to"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=32 ulysses_size=16",
     "heads / tensor-parallel size (8) must be divisible by Ulysses size (16)"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=12 attention_heads=48 "
     "hidden_size=48 key_value_heads=4 sequence_length=48 ulysses_size=6",
     "key/value heads / tensor-parallel size (4) and Ulysses size (6): one must be divisible"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=32 ulysses_size=1",
     "sequence length (32) must be divisible by twice the context-parallel size (64)"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=6 attention_heads=6 "
     "hidden_size=6 sequence_length=18 ulysses_size=3",
     "sequence length (18) must be divisible by twice the ranks of a ring (4)"},
    {"attention=fused dropout=0 context=zigzag context_parallel_size=4 ulysses_size=2 window=4",
     "context is zigzag, and ring attention has no sliding windows"},
    {"layers=65536 hidden_size=1048576",
     "the layers' weights (12 x layers x hidden size squared) would take 512 x 12 x 65536 x"},
    {"sequence_length=16777216 microbatch_size=65536", "sizes must stay below 2^63 bytes"},
};

TEST(RunConfig, BrokenRulesAreNamed) {
  testing::small_gpt().validate();
  for (const Mistake& mistake : mistakes)
    testing::expect_refused(with_fields(testing::small_gpt(), mistake.set), mistake.message);
}

/// Values that no text gives.
TEST(RunConfig, MembersOutOfRangeAreNamed) {
  RunConfig c = testing::small_gpt();
  c.type = DType::u8;
  testing::expect_refused(c, "type is u8; it must be one of f32, bf16, f64");
  c = with_fields(testing::small_gpt(), "layers=9 pipeline_parallel_size=2");
  c.stage_layers = {10, -1};
  testing::expect_refused(c, "stage_layers has -1 layers for a stage; it must be from 0");
  c = testing::small_gpt();
  c.recompute_modules = {};
  c.recompute = Recompute::selective;
  testing::expect_refused(c, "recompute is selective and recompute_modules is empty");
  c.recompute = Recompute::full;
  testing::expect_refused(c,
                          "which needs recompute=selective; set that, or drop recompute_modules");
}

TEST(ModelConfig, ScalingKeepsTheRatiosOfTheFormulas) {
  ModelConfig m{.name = "22B",
                .layers = 48,
                .hidden = 6144,
                .heads = 64,
                .sequence = 2048,
                .vocabulary = 51200};
  const ModelConfig s = m.scaled(4);
  EXPECT_EQ(m.heads * m.sequence * s.hidden, s.heads * s.sequence * m.hidden);
  EXPECT_EQ(m.sequence * s.hidden, s.sequence * m.hidden);
  EXPECT_EQ(m.vocabulary * s.hidden * s.layers, s.vocabulary * m.hidden * m.layers);
  m.intermediate = 1024;
  EXPECT_EQ(m.scaled(4).intermediate, 256);
  m.intermediate = 0;
  EXPECT_EQ(m.scaled(4).intermediate_size(), 4 * s.hidden);
  EXPECT_THROW(m.scaled(7), InputError);
  EXPECT_THROW(m.scaled(256), InputError) << "24 does not divide by 64 heads";
  EXPECT_THROW(m.scaled(0), InputError);
}

TEST(ModelConfig, AScaleThatDoesNotWorkNamesTheRuleAndOneThatDoes) {
  ModelConfig m{.name = "22B",
                .layers = 48,
                .hidden = 6144,
                .heads = 64,
                .sequence = 2048,
                .vocabulary = 51200};
  const auto message = [&](int64_t k) {
    return kernels::message_of<InputError>([&] { (void)m.scaled(k); });
  };
  EXPECT_EQ(message(64),
            "hidden size / 64 (96) must be divisible by attention heads (64); scale 1/32 works");
  EXPECT_NO_THROW(m.scaled(32));
  EXPECT_EQ(message(7),
            "hidden size (6144) must be divisible by the scale's divisor (7); scale 1/4 works");
  m.sequence = 2047;
  EXPECT_EQ(message(2),
            "sequence length (2047) must be divisible by the scale's divisor (2); no scale below "
            "it works");
}

}  // namespace
}  // namespace frugal::engine
