#include "harness/settings/llama_models.h"

namespace frugal::harness {
namespace {

ModelConfig llama() {
  return {.name = {},
          .dropout = 0,
          .norm = NormKind::rms,
          .mlp = MlpKind::swiglu,
          .bias = BiasKind::none,
          .positions = PositionKind::rotary,
          .tied = false};
}

ModelConfig gemma2() {
  ModelConfig m = llama();
  m.norm_epsilon = 1e-6;
  m.post_norms = m.tied = m.scaled_embedding = true;
  m.mlp = MlpKind::geglu;
  m.attention_softcap = 50;
  m.logit_softcap = 30;
  m.window_period = 2;
  return m;
}

struct Sizes {
  const char* name;
  int64_t layers, hidden, heads, kv_heads, intermediate, vocabulary, sequence;
};

ModelConfig sized(ModelConfig model, const Sizes& sizes) {
  model.name = sizes.name;
  model.layers = sizes.layers;
  model.hidden = sizes.hidden;
  model.heads = sizes.heads;
  model.kv_heads = sizes.kv_heads;
  model.intermediate = sizes.intermediate;
  model.vocabulary = sizes.vocabulary;
  model.sequence = sizes.sequence;
  return model;
}

/// At the length of their pretraining, before 3.1 extends it and scales the angles.
ModelConfig llama3(const Sizes& sizes) {
  ModelConfig m = sized(llama(), sizes);
  m.rotary.base = 5e5;
  return m;
}

/// The first version, whose window is shorter than its sequence.
ModelConfig mistral_7b() {
  ModelConfig m = sized(llama(), {"mistral-7b", 32, 4096, 32, 8, 14336, 32000, 32768});
  m.window = 4096;
  return m;
}

/// 2.5 has the sizes of 2.
ModelConfig qwen_7b(const char* name) {
  ModelConfig m = sized(llama(), {name, 28, 3584, 28, 4, 18944, 152064, 32768});
  m.norm_epsilon = 1e-6;
  m.bias = BiasKind::qkv;
  m.rotary.base = 1e6;
  return m;
}

ModelConfig gemma_2_9b() {
  ModelConfig m = sized(gemma2(), {"gemma-2-9b", 42, 3584, 16, 8, 14336, 256000, 8192});
  m.head_width = 256;
  m.query_scale = 256;
  m.window = 4096;
  return m;
}

ModelConfig gemma2_tiny() {
  ModelConfig m = sized(gemma2(), {"gemma2-tiny", 2, 64, 4, 2, 96, 256, 32});
  m.head_width = 32;
  m.query_scale = 32;
  m.window = 8;
  return m;
}

}  // namespace

std::vector<ModelConfig> llama_models() {
  return {sized(llama(), {"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096}),
          llama3({"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192}),
          llama3({"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192}),
          llama3({"llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192}), mistral_7b(),
          qwen_7b("qwen2-7b"), qwen_7b("qwen2.5-7b"), gemma_2_9b(),
          // Bytes as tokens.
          sized(llama(), {"llama-3m", 4, 256, 8, 4, 704, 256, 128}),
          sized(llama(), {"llama-tiny", 2, 64, 4, 2, 96, 256, 32}), gemma2_tiny()};
}

}  // namespace frugal::harness
