#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "harness/import/imported.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"

/// Small mistakes in another program's configuration: whatever becomes of them is said.
namespace frugal::harness {
namespace {

using nlohmann::json;
using Path = std::vector<std::string>;

/// A value of a configuration, and where it stands.
struct Leaf {
  Path path;
  json value;
};

void collect(const json& object, const Path& path, std::vector<Leaf>& leaves) {
  for (const auto& [key, value] : object.items()) {
    Path inner = path;
    inner.push_back(key);
    if (value.is_object())
      collect(value, inner, leaves);
    else
      leaves.push_back({inner, value});
  }
}

json object_of(const std::vector<Leaf>& leaves) {
  json object = json::object();
  for (const Leaf& leaf : leaves) {
    json* at = &object;
    for (const std::string& key : leaf.path) at = &(*at)[key];
    *at = leaf.value;
  }
  return object;
}

std::string toml_of(const json& object) {
  std::string text;
  for (const auto& [section, keys] : object.items()) {
    if (!keys.is_object()) {
      text = fmt::format("{} = {}\n", section, keys.dump()) + text;
      continue;
    }
    text += fmt::format("[{}]\n", section);
    for (const auto& [key, value] : keys.items())
      text += fmt::format("{} = {}\n", key, value.dump());
  }
  return text;
}

using Random = std::mt19937_64;
size_t below(Random& random, size_t n) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random);
}

std::string misspelt(std::string name, Random& random) {
  const size_t at = below(random, name.size());
  switch (below(random, 4)) {
    case 0:
      return name.erase(at, 1) + (name.empty() ? "x" : "");
    case 1:
      return name.insert(at, 1, static_cast<char>('a' + below(random, 26)));
    case 2:
      name[at] = static_cast<char>('a' + below(random, 26));
      return name;
    default:
      name[at] = static_cast<char>(std::isupper(static_cast<unsigned char>(name[at]))
                                       ? std::tolower(name[at])
                                       : std::toupper(name[at]));
      return name;
  }
}

json changed(const json& value, Random& random) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) {
    const int64_t number = value.get<int64_t>();
    const std::vector<json> others = {number + 1,
                                      number * 2,
                                      -number - 1,
                                      0,
                                      static_cast<double>(number) + 0.5,
                                      std::to_string(number)};
    return others[below(random, others.size())];
  }
  if (value.is_number_float()) {
    const std::vector<json> others = {value.get<double>() * 2, -1.0, "x", true};
    return others[below(random, others.size())];
  }
  if (value.is_string()) {
    const std::vector<json> others = {misspelt(value.get<std::string>() + "x", random), 3, true,
                                      json::array(), ""};
    return others[below(random, others.size())];
  }
  return "x";
}

/// One mistake in one of the values.
json mutated(std::vector<Leaf> leaves, Random& random) {
  Leaf& leaf = leaves[below(random, leaves.size())];
  switch (below(random, 5)) {
    case 0:
    case 1:
      leaf.path.back() = misspelt(leaf.path.back(), random);
      break;
    case 2:
      leaf.path.front() = misspelt(leaf.path.front(), random);
      break;
    case 3: {
      Path section = leaves[below(random, leaves.size())].path;
      section.back() = leaf.path.back();
      leaf.path = section;
      break;
    }
    default:
      leaf.value = changed(leaf.value, random);
  }
  return object_of(leaves);
}

std::string all_said(const Imported& in) {
  std::string text;
  for (const auto* list : {&in.mapped, &in.same, &in.missing, &in.unknown, &in.assumed})
    for (const Imported::Part& part : *list) text += part.said + "\n";
  return text;
}

/// Every value of the file is named, and every field has a line with the value that it has.
void expect_said(const Imported& in, const json& object) {
  const std::string said = all_said(in);
  std::vector<Leaf> leaves;
  collect(object, {}, leaves);
  for (const Leaf& leaf : leaves) {
    std::string path;
    for (const std::string& key : leaf.path) path += path.empty() ? key : "." + key;
    EXPECT_NE(said.find(fmt::format("{} = {}", path, leaf.value.dump())), std::string::npos)
        << path;
  }
  for (const auto& [key, value] : in.given.items()) {
    if (key == "name" || key == "model") continue;
    const std::string line = fmt::format("{}={}", key, field_of(key).type.text(value));
    const auto begins = [&](const std::string& text) {
      return text.starts_with(line) &&
             (text.size() == line.size() || text.compare(line.size(), 2, ": ") == 0);
    };
    EXPECT_TRUE(std::any_of(in.mapped.begin(), in.mapped.end(),
                            [&](const Imported::Part& part) { return begins(part.what); }) ||
                std::any_of(in.assumed.begin(), in.assumed.end(),
                            [&](const Imported::Part& part) { return begins(part.said); }))
        << line;
  }
}

void try_mistakes(const std::string& format, const json& config, const json& given,
                  const std::function<std::string(const json&)>& text_of) {
  ImportOptions options;
  options.given = given;
  std::vector<Leaf> leaves;
  collect(config, {}, leaves);
  expect_said(import_configuration(format, text_of(config), "mine", options), config);
  Random random(20261128);
  int refused = 0, unknown = 0, others = 0;
  for (int i = 0; i < 800; ++i) {
    const json object = mutated(leaves, random);
    SCOPED_TRACE(object.dump());
    try {
      const Imported in = import_configuration(format, text_of(object), "mine", options);
      expect_said(in, object);
      ++(in.unknown.empty() ? others : unknown);
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 25);
  EXPECT_GT(unknown, 250);
  EXPECT_GT(others, 25);
}

TEST(ImportMutations, OfTorchtitanAreSaid) {
  const json config = {
      {"job", {{"description", "a job"}}},
      {"model", {{"name", "llama3"}, {"flavor", "8B"}}},
      {"optimizer", {{"name", "AdamW"}, {"lr", 3e-4}, {"weight_decay", 0.1}, {"eps", 1e-8}}},
      {"training",
       {{"local_batch_size", 4},
        {"global_batch_size", 64},
        {"seq_len", 8192},
        {"max_norm", 1.0},
        {"steps", 100},
        {"dtype", "bfloat16"},
        {"mixed_precision_param", "bfloat16"}}},
      {"parallelism",
       {{"data_parallel_shard_degree", 4},
        {"data_parallel_replicate_degree", 2},
        {"tensor_parallel_degree", 2},
        {"pipeline_parallel_degree", 4},
        {"pipeline_parallel_schedule", "1F1B"},
        {"fsdp_reshard_after_forward", "always"},
        {"context_parallel_degree", 2}}},
      {"activation_checkpoint", {{"mode", "selective"}, {"selective_ac_option", "2"}}},
      {"compile", {{"enable", true}, {"components", {"model"}}}},
      {"checkpoint", {{"enable", false}, {"async_mode", "disabled"}}}};
  try_mistakes("torchtitan", config, json::object(), toml_of);
}

TEST(ImportMutations, OfDeepSpeedAreSaid) {
  const json config = {
      {"train_batch_size", 64},
      {"train_micro_batch_size_per_gpu", 4},
      {"gradient_accumulation_steps", 2},
      {"gradient_clipping", 0.5},
      {"steps_per_print", 10},
      {"communication_data_type", "fp32"},
      {"optimizer",
       {{"type", "AdamW"},
        {"params", {{"lr", 1e-4}, {"weight_decay", 0.1}, {"betas", {0.9, 0.95}}}}}},
      {"scheduler", {{"type", "WarmupLR"}, {"params", {{"warmup_num_steps", 10}}}}},
      {"bf16", {{"enabled", true}}},
      {"fp16", {{"enabled", false}, {"loss_scale", 0}}},
      {"zero_optimization",
       {{"stage", 3},
        {"overlap_comm", true},
        {"reduce_bucket_size", 500000},
        {"mics_shard_size", 4},
        {"offload_optimizer", {{"device", "cpu"}, {"pin_memory", true}}}}},
      {"activation_checkpointing", {{"partition_activations", true}}}};
  try_mistakes("deepspeed", config, {{"model", "22B"}},
               [](const json& object) { return object.dump(); });
}

}  // namespace
}  // namespace frugal::harness
