#include "experiments/korthikanti2022/paper.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

Model read_model(const JsonObject& from) {
  const auto integer = [&](const char* key) { return from.require<int64_t>(key); };
  const JsonObject setup = paper().setup();
  return {.config = {.name = from.require<std::string>("name"),
                     .layers = integer("layers"),
                     .hidden = integer("hidden"),
                     .heads = integer("attention_heads"),
                     .sequence = setup.require<int64_t>("sequence"),
                     .vocabulary = setup.require<int64_t>("vocabulary")},
          .tensor_parallel = integer("tensor_parallel"),
          .pipeline_parallel = integer("pipeline_parallel"),
          .interleave = integer("interleave_m"),
          .gpus = integer("gpus"),
          .micro_batch = integer("micro_batch"),
          .global_batch = integer("global_batch")};
}

}  // namespace

const Paper& paper() {
  static const Paper all(paper_id);
  return all;
}

const std::vector<Model>& models() {
  static const auto all = [] {
    std::vector<Model> read;
    for (const JsonObject& one : paper().models()) read.push_back(read_model(one));
    return read;
  }();
  return all;
}

const Model& model(std::string_view name) {
  for (const Model& m : models())
    if (m.config.name == name) return m;
  paper().unknown("model", name);
}

double peak_flops_per_gpu() { return paper().setup().require<double>("peak_flops_per_gpu"); }

}  // namespace frugal::experiments::korthikanti2022
