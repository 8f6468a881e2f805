#include "harness/calibrate/known_errors.h"

#include <nlohmann/json.hpp>

#include "kernels/support/json_file.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

std::optional<KnownErrors> find_known_errors(const std::string& name_or_path) {
  const auto [text, name] = find_machine_file(name_or_path);
  const nlohmann::json file = parse_json(text, name);
  const JsonObject root(file, name);
  if (!root.has("predictions")) return std::nullopt;
  const JsonObject all = root.object("predictions");
  all.allow_only({"steps", "pairs", "differ_in", "source"});
  const JsonObject steps = all.object("steps"), pairs = all.object("pairs");
  steps.allow_only({"count", "median", "largest"});
  pairs.allow_only({"count", "median", "nine_in_ten"});
  return KnownErrors{
      .steps = {steps.integer("count", 1), steps.number("median", 0), steps.number("largest", 0)},
      .pairs = {pairs.integer("count", 1), pairs.number("median", 0),
                pairs.number("nine_in_ten", 0)},
      .differ_in = all.require<std::string>("differ_in"),
      .source = all.require<std::string>("source")};
}

}  // namespace frugal::harness
