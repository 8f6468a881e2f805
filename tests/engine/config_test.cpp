#include "engine/config.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

struct Mistake {
  std::function<void(RunConfig&)> make;
  const char* message;
};

/// Zigzag, with all else that sharing sequences needs.
void share_a_sequence(RunConfig& c, int ranks) {
  c.attention = AttentionKind::fused;
  c.model.dropout = 0;
  c.context_parallel = ranks;
  c.context = ContextKind::zigzag;
}

const Mistake mistakes[] = {
    {[](RunConfig& c) {
       c.model.heads = 6;
       c.model.hidden = 66;
       c.tensor_parallel = 4;
     },
     "heads (6) must be divisible by tensor-parallel size (4)"},
    {[](RunConfig& c) { c.model.hidden = 65; },
     "hidden size (65) must be divisible by attention heads (8)"},
    {[](RunConfig& c) {
       c.model.sequence = 31;
       c.tensor_parallel = 2;
       c.sequence_parallel = true;
     },
     "sequence length (31) must be divisible by tensor-parallel size (2)"},
    {[](RunConfig& c) {
       c.model.vocabulary = 63;
       c.tensor_parallel = 2;
     },
     "vocabulary size (63) must be divisible by tensor-parallel size (2)"},
    {[](RunConfig& c) { c.model.head_width = -1; },
     "head_size is -1; it must be from 1 to 1048576, or 0 for hidden size / attention heads"},
    {[](RunConfig& c) { c.model.kv_heads = -2; },
     "key_value_heads is -2; it must be from 1 to 1048576, or 0 for attention heads"},
    {[](RunConfig& c) { c.model.intermediate = -1; },
     "intermediate_size is -1; it must be from 1 to 8388608, or 0 for 4 x hidden size"},
    {[](RunConfig& c) {
       c.tensor_parallel = 2;
       c.head_tiles = 33;
     },
     "head_tiles is 33; it must be from 1 to 32"},
    {[](RunConfig& c) { c.model.dropout = 1; }, "dropout is 1"},
    {[](RunConfig& c) { c.model.dropout = 1e-6; }, "dropout is 1e-06"},
    {[](RunConfig& c) { c.micro_batch = 0; }, "microbatch_size is 0"},
    {[](RunConfig& c) { c.type = DType::u8; }, "type is u8; it must be one of f32, bf16, f64"},
    {[](RunConfig& c) { c.model.hidden = int64_t{1} << 62; },
     "hidden_size is 4611686018427387904; it must be from 1 to 1048576"},
    {[](RunConfig& c) { c.model.layers = 65537; }, "layers is 65537; it must be from 1 to 65536"},
    {[](RunConfig& c) { c.microbatches = int64_t{1} << 40; }, "microbatches is 1099511627776"},
    {[](RunConfig& c) {
       c.recompute = Recompute::selective;
       c.recompute_modules = {};
     },
     "recompute is selective and recompute_modules is empty"},
    {[](RunConfig& c) {
       c.recompute = Recompute::full;
       c.recompute_modules = {};
     },
     "which needs recompute=selective; set that, or drop recompute_modules"},
    {[](RunConfig& c) {
       c.schedule = ScheduleKind::dual_pipe_v;
       c.model.layers = 4;
       c.pipeline_parallel = c.chunks = 2;
       c.microbatches = 3;
     },
     "microbatches (3) must be at least 2 x stages (2)"},
    {[](RunConfig& c) {
       c.schedule = ScheduleKind::v_half;
       c.pipeline_parallel = 2;
     },
     "chunks is 1; it must be 2"},
    {[](RunConfig& c) {
       c.chunks = 2;
       c.schedule = ScheduleKind::interleaved;
     },
     "chunks is 2, which needs a pipeline-parallel size of at least 2"},
    {[](RunConfig& c) { c.kept_microbatches = 2; },
     "kept_microbatches is 2, which needs recompute=selective, full or stage"},
    {[](RunConfig& c) { c.overlap_grad_reduce = true; },
     "data-parallel size and context-parallel size are 1, so that nothing is summed; leave it off"},
    {[](RunConfig& c) {
       c.data_parallel = 2;
       c.overlap_grad_reduce = c.step_in_backward = true;
     },
     "overlap_grad_reduce is on and step_in_backward is on"},
    {[](RunConfig& c) {
       c.data_parallel = 2;
       c.overlap_grad_reduce = true;
       c.shard = Shard::gradients;
     },
     "overlap_grad_reduce is on and shard is gradients, which sums in every backward pass anyway"},
    {[](RunConfig& c) {
       c.data_parallel = 2;
       c.overlap_grad_reduce = true;
       c.shard = Shard::optimizer;
       c.bucket_size = 5;
     },
     "bucket_size is 5 and shard is optimizer, with which a bucket is what replicas divide"},
    {[](RunConfig& c) {
       c.data_parallel = 2;
       c.bucket_size = 5;
     },
     "bucket_size is 5, which needs overlap_grad_reduce; set that, or drop bucket_size"},
    {[](RunConfig& c) {
       c.data_parallel = 2;
       c.overlap_grad_reduce = true;
       c.bucket_size = -1;
     },
     "bucket_size is -1; it must be from 1 to 1099511627776, or 0 for"},
    {[](RunConfig& c) { share_a_sequence(c, 32); },
     "sequence length (32) must be divisible by twice the context-parallel size (64)"},
    {[](RunConfig& c) {
       share_a_sequence(c, 2);
       c.model.causal = false;
     },
     "context is zigzag and the model's attention is not causal"},
    {[](RunConfig& c) {
       share_a_sequence(c, 2);
       c.model.window = 4;
     },
     "context is zigzag, and ring attention has no sliding windows"},
    {[](RunConfig& c) {
       share_a_sequence(c, 8);
       c.ulysses_size = 3;
     },
     "context-parallel size (8) must be divisible by Ulysses size (3)"},
    {[](RunConfig& c) { c.ulysses_size = 2; },
     "ulysses_size is 2, which needs context=ring or zigzag"},
    {[](RunConfig& c) {
       share_a_sequence(c, 4);
       c.ulysses_size = -1;
     },
     "ulysses_size is -1; it must be from 1 to"},
    {[](RunConfig& c) {
       share_a_sequence(c, 32);
       c.ulysses_size = 16;
     },
     "heads / tensor-parallel size (8) must be divisible by Ulysses size (16)"},
    {[](RunConfig& c) {
       share_a_sequence(c, 12);
       c.model.heads = c.model.hidden = 48;
       c.model.kv_heads = 4;
       c.model.sequence = 48;
       c.ulysses_size = 6;
     },
     "key/value heads / tensor-parallel size (4) and Ulysses size (6): one must be divisible"},
    {[](RunConfig& c) {
       share_a_sequence(c, 32);
       c.ulysses_size = 1;
     },
     "sequence length (32) must be divisible by twice the context-parallel size (64)"},
    {[](RunConfig& c) {
       share_a_sequence(c, 6);
       c.model.heads = c.model.hidden = 6;
       c.model.sequence = 18;
       c.ulysses_size = 3;
     },
     "sequence length (18) must be divisible by twice the ranks of a ring (4)"},
    {[](RunConfig& c) {
       share_a_sequence(c, 4);
       c.ulysses_size = 2;
       c.model.window = 4;
     },
     "context is zigzag, and ring attention has no sliding windows"},
    // Each size is allowed, and their product is not.
    {[](RunConfig& c) {
       c.model.layers = 65536;
       c.model.hidden = 1 << 20;
     },
     "the layers' weights (12 x layers x hidden size squared) would take 512 x 12 x 65536 x"},
    {[](RunConfig& c) {
       c.model.sequence = 1 << 24;
       c.micro_batch = 1 << 16;
     },
     "sizes must stay below 2^63 bytes"},
};

TEST(RunConfig, BrokenRulesAreNamed) {
  testing::small_gpt().validate();
  for (const Mistake& mistake : mistakes) {
    RunConfig c = testing::small_gpt();
    mistake.make(c);
    testing::expect_refused(c, mistake.message);
  }
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
