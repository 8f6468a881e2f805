#include <nlohmann/json.hpp>

#include "harness/settings/config_json.h"
#include "harness/settings/field.h"
#include "harness/settings/given.h"
#include "harness/settings/settings.h"
#include "kernels/support/json_file.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// Whether a setting leads to another file, which is no part of the input.
bool names_a_file(const nlohmann::json& given) {
  for (const harness::Field& field : harness::fields()) {
    const auto value = given.find(field.key);
    if (value != given.end() && value->is_string() &&
        !field.file_of(value->get<std::string>()).empty())
      return true;
  }
  return false;
}

/// What --config reads. A record has it as its "configuration", which is read as a record's, and by
/// --config.
void read_configuration(const std::string& path) {
  const nlohmann::json given = harness::given_in_file(path);
  for (const nlohmann::json& one : harness::combinations(given)) {
    if (names_a_file(one)) continue;
    const harness::RunSettings settings = harness::settings_of(one, path + ": ");
    engine::RunConfig config = settings.config;
    config.model = harness::unscaled_model(settings);
    config.validate();
    const nlohmann::json written = harness::to_json(config);
    require_same(written, harness::to_json(
                              harness::run_config_from_json(kernels::JsonObject(written, path))));
    const std::string again = scratch_file("again.json", written.dump());
    const harness::RunSettings other =
        harness::settings_of(harness::given_in_file(again), again + ": ");
    engine::RunConfig same = other.config;
    same.model = harness::unscaled_model(other);
    require_same(written, harness::to_json(same));
  }
}

const bool configuration_added =
    add_target({"configuration", "configuration.json", read_configuration});

}  // namespace
}  // namespace frugal::testing
