#include "harness/settings/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/settings/field.h"
#include "harness/settings/models.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

[[noreturn]] void refuse_unknown(const std::string& key, const std::string& where) {
  std::vector<std::string> keys;
  for (const Field& field : fields()) keys.push_back(field.key);
  const auto near = nearest(key, keys);
  throw InputError(fmt::format("{}{} is not a known key; {}", where, key,
                               near.empty()
                                   ? fmt::format("known are {}", fmt::join(keys, ", "))
                                   : fmt::format("did you mean {}?", fmt::join(near, ", "))));
}

/// A model that has no base says all that a description of a model must.
void check_described(const RunSettings& settings) {
  std::vector<std::string> missing;
  bool any = false;
  for (const Field& field : fields()) {
    if (field.of != FieldOf::model) continue;
    any = any || settings.is_given(field.key);
    if (field.required && !settings.is_given(field.key)) missing.push_back(field.key);
  }
  if (missing.empty()) return;
  throw InputError(fmt::format(
      "--model is missing; give one of {}, or a JSON file{}", fmt::join(model_names(), ", "),
      any ? fmt::format(", or say {} too", fmt::join(missing, ", ")) : ""));
}

}  // namespace

RunSettings settings_of(const nlohmann::json& given, const std::string& where) {
  RunSettings settings;
  for (const auto& [key, value] : given.items())
    if (std::none_of(fields().begin(), fields().end(),
                     [&key = key](const Field& field) { return field.key == key; }))
      refuse_unknown(key, where);
  for (const Field& field : fields()) {
    const auto value = given.find(field.key);
    if (value == given.end()) continue;
    field.type.check(where + (where.empty() ? field.name() : field.key), *value);
    field.set(settings, *value, where.empty() ? field.name() : where.substr(0, where.size() - 2));
  }
  settings.given = given;
  return settings;
}

ModelConfig unscaled_model(const RunSettings& settings) {
  if (settings.model.empty()) check_described(settings);
  RunSettings changed;
  if (!settings.model.empty()) changed.config.model = find_model(settings.model);
  for (const Field& field : fields())
    if (field.of == FieldOf::model && settings.is_given(field.key))
      field.set(changed, settings.given.at(field.key), field.name());
  return changed.config.model;
}

}  // namespace frugal::harness
