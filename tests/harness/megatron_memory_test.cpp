#include <gtest/gtest.h>

#include "tests/engine/program/support.h"
#include "tests/harness/megatron.h"

// Megatron-LM's arguments of activations that are computed again, or kept on the host.
namespace frugal::harness {
namespace {

TEST(Megatron, ReadsRecomputation) {
  const std::string separate = "--attention-backend unfused ";
  EXPECT_EQ(config_of(with(separate + "--recompute-activations")).recompute, Recompute::selective);
  EXPECT_EQ(
      config_of(with(separate + "--recompute-granularity selective --recompute-modules core_attn"))
          .recompute,
      Recompute::selective);
  const Imported fused = with("--recompute-activations");
  EXPECT_EQ(config_of(fused).recompute, Recompute::selective);
  EXPECT_TRUE(has(fused.missing, "--recompute-activations"));
  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  EXPECT_EQ(config_of(with(selective + "layernorm mlp")).recompute_modules,
            (LayerModules{LayerModule::norm, LayerModule::mlp}));
  const Imported experts = with(selective + "moe_act layernorm");
  EXPECT_EQ(config_of(experts).recompute_modules, LayerModules{LayerModule::norm});
  EXPECT_TRUE(has(experts.missing, "--recompute-modules"));
  EXPECT_EQ(config_of(with(selective + "mla_up_proj")).recompute, Recompute::none);
  const std::string full = "--recompute-granularity full --recompute-method ";
  EXPECT_EQ(config_of(with(full + "uniform --recompute-num-layers 1")).recompute, Recompute::full);
  const std::string stages = " --pipeline-model-parallel-size 2";
  EXPECT_EQ(config_of(with(full + "uniform --recompute-num-layers 2" + stages)).recompute,
            Recompute::stage);
  EXPECT_EQ(config_of(with(full + "uniform --recompute-num-layers 2")).recompute_group, 2);
  EXPECT_EQ(config_of(with(full + "block --recompute-num-layers 1" + stages)).recompute_layers, 1);
  EXPECT_EQ(config_of(with(full + "block --recompute-num-layers 2" + stages)).recompute_layers, 0)
      << "that is every layer of a stage";
  EXPECT_EQ(config_of(with("--activations-checkpoint-method uniform")).recompute, Recompute::full);
  EXPECT_EQ(config_of(with("--recompute-method uniform")).recompute, Recompute::none);
}

TEST(Megatron, ReadsOffloadedActivations) {
  using M = LayerModule;
  const RunConfig layers = config_of(with("--cpu-offloading-num-layers 3"));
  EXPECT_TRUE(layers.offload);
  EXPECT_EQ(layers.offload_modules, LayerModules::every());
  EXPECT_EQ(layers.offload_layers, 3);
  const std::string modules = " --fine-grained-activation-offloading --offload-modules ";
  const Imported both = with(modules + "attn_norm core_attn attn_proj mlp_norm");
  EXPECT_TRUE(config_of(both).offload);
  EXPECT_EQ(config_of(both).offload_modules,
            (LayerModules{M::residual, M::projection, M::core_attention}));
  EXPECT_FALSE(has(both.missing, "--offload-modules"));
  const Imported one = with(modules + "attn_norm qkv_linear moe_act");
  EXPECT_EQ(config_of(one).offload_modules, (LayerModules{M::residual, M::norm}));
  EXPECT_EQ(std::count_if(one.missing.begin(), one.missing.end(),
                          [](const auto& p) { return p.said.starts_with("--offload-modules"); }),
            3);
  const std::string again = "--recompute-granularity selective --recompute-modules layernorm";
  EXPECT_EQ(config_of(with(again + modules + "qkv_linear core_attn")).offload_modules,
            LayerModules{M::projection});
  for (const std::string& nothing :
       {again + modules + "qkv_linear", "--recompute-granularity full" + modules + "core_attn",
        modules + "moe_act", std::string("--offload-modules core_attn"),
        std::string("--fine-grained-activation-offloading")})
    EXPECT_FALSE(config_of(with(nothing)).offload) << nothing;
}

/// NVIDIA/Megatron-LM d98e8a64ddf3, core/fusions/fused_cross_entropy.py: a compiled function gives
/// a gradient beside the float32 probabilities that it reads, which the unfused one overwrites
/// (core/tensor_parallel/cross_entropy.py).
TEST(Megatron, AFusedLossHasAFurtherFloat32CopyOfTheLogits) {
  constexpr int64_t tokens = 32 * 2, vocabulary = 8192;
  const std::string list = "--bf16 --vocab-size 8192 --num-layers 1";
  const RunConfig one = config_of(with(list)),
                  fused = config_of(with(list + " --cross-entropy-loss-fusion"));
  EXPECT_EQ(one.program, Program());
  EXPECT_EQ(testing::bytes_of(fused).peak - testing::bytes_of(one).peak, 4 * tokens * vocabulary);
  EXPECT_EQ(
      config_of(with(list + " --cross-entropy-loss-fusion --cross-entropy-fusion-impl te")).program,
      Program());
  EXPECT_TRUE(has(with("--cross-entropy-fusion-impl te").same, "--cross-entropy-fusion-impl te"));
  EXPECT_TRUE(has(with(list + " --cross-entropy-loss-fusion --fp16-lm-cross-entropy").missing,
                  "--cross-entropy-loss-fusion"));
}

TEST(Megatron, HasScoresInFloat32WhereItHasScores) {
  EXPECT_TRUE(has(with("--attention-softmax-in-fp32").same, "--attention-softmax-in-fp32"));
  EXPECT_TRUE(has(with("--attention-softmax-in-fp32 --attention-backend unfused").missing,
                  "--attention-softmax-in-fp32"));
}

}  // namespace
}  // namespace frugal::harness
