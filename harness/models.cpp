#include "harness/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/config_json.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal {
namespace {

const std::vector<ModelConfig>& models() {
  static const std::vector<ModelConfig> all = {{.name = "22B",
                                                .layers = 48,
                                                .hidden = 6144,
                                                .heads = 64,
                                                .sequence = 2048,
                                                .vocabulary = 51200},
                                               {.name = "175B",
                                                .layers = 96,
                                                .hidden = 12288,
                                                .heads = 96,
                                                .sequence = 2048,
                                                .vocabulary = 51200},
                                               {.name = "530B",
                                                .layers = 105,
                                                .hidden = 20480,
                                                .heads = 128,
                                                .sequence = 2048,
                                                .vocabulary = 51200},
                                               {.name = "1T",
                                                .layers = 128,
                                                .hidden = 25600,
                                                .heads = 160,
                                                .sequence = 2048,
                                                .vocabulary = 51200},
                                               // 50257 tokens, rounded up to a multiple of 128.
                                               {.name = "gpt2-124m",
                                                .layers = 12,
                                                .hidden = 768,
                                                .heads = 12,
                                                .sequence = 1024,
                                                .vocabulary = 50304},
                                               {.name = "gpt2-1.5b",
                                                .layers = 48,
                                                .hidden = 1600,
                                                .heads = 25,
                                                .sequence = 1024,
                                                .vocabulary = 50304},
                                               // 3.4 million parameters, bytes as tokens.
                                               {.name = "gpt-3m",
                                                .layers = 4,
                                                .hidden = 256,
                                                .heads = 8,
                                                .sequence = 128,
                                                .vocabulary = 256},
                                               {.name = "gpt-tiny",
                                                .layers = 2,
                                                .hidden = 64,
                                                .heads = 4,
                                                .sequence = 32,
                                                .vocabulary = 256}};
  return all;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelConfig& model : models()) names.push_back(model.name);
  return names;
}

ModelConfig find_model(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) {
    const nlohmann::json json = load_json(name);
    ModelConfig model = model_from_json(JsonObject(json, name));
    if (model.name.empty()) model.name = std::filesystem::path(name).stem().string();
    return model;
  }
  for (const ModelConfig& model : models())
    if (model.name == name) return model;
  const auto similar = nearest(name, model_names());
  throw InputError(
      fmt::format("--model is \"{}\"; {}known are {}, or give a JSON file", name,
                  similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", ")),
                  fmt::join(model_names(), ", ")));
}

}  // namespace frugal
