#include "bench/predicted_models.h"

#include "harness/settings/models.h"

namespace frugal::bench {
namespace {

RunConfig model_run(const ModelConfig& model, int64_t batch,
                    Recompute recompute = Recompute::none) {
  RunConfig run;
  run.model = model;
  run.micro_batch = batch;
  run.recompute = recompute;
  if (model.positions == PositionKind::rotary) run.attention = AttentionKind::fused;
  return run;
}

ModelConfig gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t sequence,
                int64_t vocabulary = 256) {
  return {.name = "gpt",
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .sequence = sequence,
          .vocabulary = vocabulary,
          .dropout = 0.1};
}

ModelConfig llama(int64_t layers, int64_t hidden, int64_t heads, int64_t sequence,
                  int64_t vocabulary = 256) {
  ModelConfig model = find_model("llama-3m");
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.intermediate = hidden * 11 / 4;
  model.sequence = sequence;
  model.vocabulary = vocabulary;
  return model;
}

}  // namespace

std::vector<PredictedModel> predicted_models() {
  const ModelConfig eighth = gpt(1, 768, 64, 256);
  return {{"22B-eighth", true, model_run(eighth, 4)},
          {"22B-eighth-selective", true, model_run(eighth, 4, Recompute::selective)},
          {"22B-eighth-full", true, model_run(eighth, 4, Recompute::full)},
          {"gpt-h384-s192", true, model_run(gpt(1, 384, 6, 192), 3)},
          {"gpt-h640-s320", true, model_run(gpt(1, 640, 10, 320), 4)},
          {"gpt-h768-s1024", true, model_run(gpt(1, 768, 12, 1024), 1)},
          {"gpt-h1280-s256", true, model_run(gpt(1, 1280, 20, 256), 2)},
          {"llama-h768-s512", true, model_run(llama(1, 768, 12, 512), 2)},
          {"llama-h1152-s256", true, model_run(llama(1, 1152, 18, 256), 2)},
          {"gpt-3m", false, model_run(find_model("gpt-3m"), 8)},
          {"gpt-3m-full", false, model_run(find_model("gpt-3m"), 8, Recompute::full)},
          {"gpt-6x384-v8192", false, model_run(gpt(6, 384, 6, 256, 8192), 2)},
          {"gpt-12x768-v16384", false, model_run(gpt(12, 768, 12, 128, 16384), 2)},
          {"llama-3m", false, model_run(find_model("llama-3m"), 4)},
          {"llama-4x640-v4096", false, model_run(llama(4, 640, 10, 384, 4096), 1)}};
}

}  // namespace frugal::bench
