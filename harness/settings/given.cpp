#include "harness/settings/given.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/settings/field.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Far more than anybody waits for.
constexpr int most_combinations = 1000;

/// Says the keys of a model's description as if they stood beside "model".
void flatten_model(json& given, const std::string& path) {
  if (!given.contains("model") || !given["model"].is_object()) return;
  const json model = given["model"];
  given.erase("model");
  for (const auto& [key, value] : model.items()) {
    if (given.contains(key))
      throw InputError(
          fmt::format("{}: {} stands in model and beside it; leave one of them out", path, key));
    given[key] = value;
  }
}

/// A record has it beside what it is made from.
void check_global_batch(json& given, const std::string& path) {
  const auto found = given.find("global_batch");
  if (found == given.end()) return;
  const json global = *found;
  given.erase(found);
  for (const json& one : combinations(given)) {
    const RunConfig config = settings_of(one, path + ": ").config;
    const int64_t batch = config.micro_batch * config.batch_microbatches();
    if (global != batch)
      throw InputError(fmt::format(
          "{}: global_batch is {}, and microbatch_size x microbatches x data_parallel_size is {}; "
          "leave it out",
          path, global.dump(), batch));
  }
}

}  // namespace

json given_in_file(const std::string& path) {
  json given = load_json(path);
  if (!given.is_object())
    throw InputError(
        fmt::format("{}: it is no object; give one with the keys of a configuration "
                    "(docs/configuration.schema.json)",
                    path));
  flatten_model(given, path);
  for (const auto& [key, value] : given.items())
    if (value.is_array() && value.empty())
      throw InputError(fmt::format("{}: {} is an empty list; give a value", path, key));
  for (const Field& field : fields())
    if (!field.type.list && given.contains(field.key) && given[field.key].is_array())
      throw InputError(fmt::format("{}: {} is a list; it takes one value", path, field.key));
  check_global_batch(given, path);
  for (const json& one : combinations(given)) (void)settings_of(one, path + ": ");
  return given;
}

json given_in_text(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    throw InputError(
        fmt::format("--set is \"{}\"; it must be KEY=VALUE, such as recompute=full", assignment));
  const std::string key = assignment.substr(0, equals);
  const auto found = std::find_if(fields().begin(), fields().end(),
                                  [&key](const Field& field) { return field.key == key; });
  if (found == fields().end()) (void)settings_of({{key, nullptr}}, "--set: ");
  std::vector<json> values = found->type.values("--set " + key, assignment.substr(equals + 1));
  return {{key, values.size() == 1 ? std::move(values.front()) : json(values)}};
}

std::vector<std::string> swept_keys(const json& given) {
  std::vector<std::string> keys;
  for (const Field& field : fields())
    if (given.contains(field.key) && given[field.key].is_array()) keys.push_back(field.key);
  return keys;
}

std::vector<json> combinations(const json& given) {
  std::vector<json> all = {given};
  for (const auto& [key, value] : given.items())  // a list of a key that is no field's too
    if (value.is_array() && value.size() == 1) all.front()[key] = value.front();
  const std::vector<std::string> keys = swept_keys(all.front());
  double number = 1;
  for (const std::string& key : keys) number *= static_cast<double>(all.front()[key].size());
  if (number > most_combinations)
    throw InputError(
        fmt::format("{} have {:.0f} combinations; at most {} are run, give fewer values",
                    fmt::join(keys, ", "), number, most_combinations));
  for (const std::string& key : keys) {
    std::vector<json> longer;
    for (const json& one : all)
      for (const json& value : one[key]) {
        longer.push_back(one);
        longer.back()[key] = value;
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace frugal::harness
