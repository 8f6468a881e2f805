// Small models with every option that changes what is issued to a GPU, beside the CPU: losses of
// training steps. Small enough for an emulated GPU.
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"
#include "tests/cuda/losses.h"

namespace frugal::engine {
namespace {

/// Heads of 64 elements, which cuDNN takes, two of queries to one of keys and values.
void choose_llama(RunConfig& run) {
  run.model = {.name = "llama",
               .layers = 2,
               .hidden = 128,
               .heads = 2,
               .sequence = 16,
               .vocabulary = 48,
               .dropout = 0,
               .kv_heads = 1,
               .intermediate = 96,
               .norm = NormKind::rms,
               .mlp = MlpKind::swiglu,
               .bias = BiasKind::none,
               .positions = PositionKind::rotary,
               .tied = false};
  run.type = DType::bf16;
  run.attention = AttentionKind::fused;
}

void choose_mini_sequences(RunConfig& run) {
  run.recompute = Recompute::full;
  run.mlp_chunks = 4;
  run.head_chunks = 2;
  run.step_in_backward = true;
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"plain", [](RunConfig&) {}},
      {"stored_masks", [](RunConfig& run) { run.stored_masks = true; }},
      {"selective", [](RunConfig& run) { run.recompute = Recompute::selective; }},
      {"mini_sequences", choose_mini_sequences},
      {"microbatches",
       [](RunConfig& run) {
         run.microbatches = 3;
         run.head_tiles = 3;
       }},
      {"offload",
       [](RunConfig& run) {
         run.recompute = Recompute::full;
         run.offload = true;
         run.offload_optimizer = true;
       }},
      {"offload_modules",
       [](RunConfig& run) {
         run.microbatches = 2;
         run.stored_masks = true;
         run.offload = true;
         run.offload_modules = LayerModules::every();
       }},
      {"bert",
       [](RunConfig& run) {
         run.model.causal = false;
         run.model.objective = Objective::masked_token;
       }},
      {"f64", [](RunConfig& run) { run.type = DType::f64; }},
      {"bf16", [](RunConfig& run) { run.type = DType::bf16; }},
      {"llama", choose_llama},
      {"llama_pure_mini_sequences",
       [](RunConfig& run) {
         choose_llama(run);
         choose_mini_sequences(run);
         run.precision = Precision::pure;
       }},
      {"gemma2",
       [](RunConfig& run) {
         choose_llama(run);
         run.model.post_norms = true;
         run.model.mlp = MlpKind::geglu;
         run.model.scaled_embedding = true;
         run.model.attention_softcap = 50;
         run.model.logit_softcap = 30;
         run.model.sequence = 128;  // every cuDNN has soft caps at this length
         run.model.window = 8;
         run.model.window_period = 2;
         run.model.tied = true;
       }},
  };
  return all;
}

class VariantsOnTheGpu : public ::testing::TestWithParam<Variant> {};

TEST_P(VariantsOnTheGpu, LearnWhatTheCpuLearns) {
  RunConfig run = tiny_gpt();
  GetParam().choose(run);
  if (const std::string why = why_not_on_gpus(run, 1, 1); !why.empty()) GTEST_SKIP() << why;
  // The CPU has no tf32 to compare with.
  if (tf32_products() && run.type == DType::f32) GTEST_SKIP() << "FRUGAL_TF32 is set";
  expect_losses_of_the_cpu(run);
}

INSTANTIATE_TEST_SUITE_P(Small, VariantsOnTheGpu, ::testing::ValuesIn(variants()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace frugal::engine
