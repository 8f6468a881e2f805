#include "experiments/korthikanti2022/paper.h"

namespace frugal::korthikanti2022 {
namespace {

Model read_model(const nlohmann::json& json) {
  const auto& setup = paper().document().at("setup");
  return {.config = {.name = json.at("name"),
                     .layers = json.at("layers"),
                     .hidden = json.at("hidden"),
                     .heads = json.at("attention_heads"),
                     .sequence = setup.at("sequence"),
                     .vocabulary = setup.at("vocabulary")},
          .tensor_parallel = json.at("tensor_parallel"),
          .pipeline_parallel = json.at("pipeline_parallel"),
          .interleave = json.at("interleave_m"),
          .gpus = json.at("gpus"),
          .micro_batch = json.at("micro_batch"),
          .global_batch = json.at("global_batch")};
}

}  // namespace

const Paper& paper() {
  static const Paper all(paper_id);
  return all;
}

const std::vector<Model>& models() {
  static const auto all = [] {
    std::vector<Model> read;
    for (const auto& json : paper().document().at("models")) read.push_back(read_model(json));
    return read;
  }();
  return all;
}

const Model& model(std::string_view name) {
  for (const Model& m : models())
    if (m.config.name == name) return m;
  paper().unknown("model", name);
}

double peak_flops_per_gpu() { return paper().document().at("setup").at("peak_flops_per_gpu"); }

}  // namespace frugal::korthikanti2022
