#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harness/import/argument_list.h"
#include "harness/import/imported.h"
#include "harness/settings/settings.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

using harness::Imported;

nlohmann::json said_by(const std::vector<Imported::Part>& parts) {
  nlohmann::json said = nlohmann::json::array();
  for (const Imported::Part& part : parts) said.push_back({part.said, part.what});
  return said;
}

nlohmann::json all_of(const Imported& imported) {
  return {imported.format,           imported.given,
          said_by(imported.mapped),  said_by(imported.same),
          said_by(imported.missing), said_by(imported.unknown),
          said_by(imported.assumed), imported.left_out,
          imported.other_model};
}

/// Another program's configuration, of whichever format it looks like. What it says in fields is
/// a run's settings, or refused as those of a user are.
void read_import(const std::string& path) {
  const std::string text = kernels::read_text(path);
  harness::ImportOptions options;
  options.given = {{"vocabulary_size", 32000}};
  const std::string format = harness::import_format_of(text, path);
  // A process for each input would make the fuzzer slow: it leaves to bash what bash reads.
  const bool fuzzed = std::getenv("FRUGAL_FUZZ") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (fuzzed && format == "megatron" && harness::is_for_bash(text))
    throw kernels::InputError("it is for bash");
  if (format == "deepspeed") options.given["model"] = "22B";  // it has none of its own
  const auto read = [&] { return import_configuration(format, text, path, options); };
  const Imported imported = read();
  require_same(all_of(imported), all_of(read()));
  if (!imported.other_model.empty()) return;
  harness::RunSettings settings = harness::settings_of(imported.given);
  settings.config.model = harness::unscaled_model(settings);
  settings.config.validate();
}

const bool import_added = add_target({"import", "import.txt", read_import});

}  // namespace
}  // namespace frugal::testing
