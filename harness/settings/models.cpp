#include "harness/settings/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/huggingface/hugging_face_config.h"
#include "harness/settings/config_json.h"
#include "harness/settings/llama_models.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

struct Size {
  const char* name;
  int64_t layers, hidden, heads;
};

/// GPTs, or BERTs: bidirectional, and trained to tell hidden tokens.
struct Family {
  int64_t sequence, vocabulary;
  std::vector<Size> sizes;
  bool is_bert = false;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      // korthikanti2022, table 3.
      {2048,
       51200,
       {{"22B", 48, 6144, 64},
        {"175B", 96, 12288, 96},
        {"530B", 105, 20480, 128},
        {"1T", 128, 25600, 160}}},
      // 50257 tokens, rounded up to a multiple of 128.
      {1024, 50304, {{"gpt2-124m", 12, 768, 12}, {"gpt2-1.5b", 48, 1600, 25}}},
      // pipedream2bw2021, section 5.
      {512,
       50304,
       {{"gpt-355m", 24, 1024, 16},
        {"gpt-1.3b", 24, 2048, 16},
        {"gpt-2.2b", 32, 2304, 32},
        {"gpt-3.8b", 32, 3072, 32},
        {"gpt-28.3b", 2240, 1024, 16}}},
      {512,
       30592,
       {{"bert-355m", 24, 1024, 16}, {"bert-2.2b", 32, 2304, 32}, {"bert-3.8b", 32, 3072, 32}},
       true},
      // 3.4 million parameters, bytes as tokens.
      {128, 256, {{"gpt-3m", 4, 256, 8}}},
      // Bytes and the mask token, rounded up to a multiple of 8.
      {128, 264, {{"bert-3m", 4, 256, 8}}, true},
      {32, 256, {{"gpt-tiny", 2, 64, 4}}}};
  return all;
}

std::vector<ModelConfig> models() {
  std::vector<ModelConfig> all;
  for (const Family& family : families())
    for (const Size& size : family.sizes)
      all.push_back(
          {.name = size.name,
           .layers = size.layers,
           .hidden = size.hidden,
           .heads = size.heads,
           .sequence = family.sequence,
           .vocabulary = family.vocabulary,
           .causal = !family.is_bert,
           .objective = family.is_bert ? Objective::masked_token : Objective::next_token});
  for (ModelConfig& model : llama_models()) all.push_back(std::move(model));
  return all;
}

/// `path` is a JSON file, or a folder with a config.json.
ModelConfig model_of_file(const std::string& path) {
  std::filesystem::path file = path;
  if (is_folder(file)) file /= "config.json";
  const nlohmann::json json = load_json(file.string());
  ModelConfig model = is_hugging_face(json) ? model_from_hugging_face(json, file.string())
                                            : model_from_json(JsonObject(json, file.string()));
  // Every model's file is called config.json there, and the folder after the model.
  const bool named_by_folder = file.filename() == "config.json";
  if (model.name.empty())
    model.name =
        (named_by_folder ? std::filesystem::absolute(file).parent_path().filename() : file.stem())
            .string();
  return model;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelConfig& model : models()) names.push_back(model.name);
  return names;
}

ModelConfig find_model(const std::string& name) {
  for (const ModelConfig& model : models())
    if (model.name == name) return model;
  if (name.find('/') != std::string::npos || name.ends_with(".json") || is_folder(name))
    return model_of_file(name);
  const auto similar = nearest(name, model_names());
  throw InputError(fmt::format(
      "--model is \"{}\"; {}known are {}, or give a JSON file or a folder with a config.json", name,
      similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", ")),
      fmt::join(model_names(), ", ")));
}

}  // namespace frugal::harness
