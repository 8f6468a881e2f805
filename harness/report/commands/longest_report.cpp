#include "harness/report/commands/longest_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/measurement.h"
#include "harness/settings/config_json.h"

namespace frugal::harness {
namespace {

std::string refused(const LongestSequence& longest) {
  if (longest.at_least())
    return "tokens, at least: a configuration may have no more, and this one fits";
  return fmt::format(
      "tokens; the {} {} {} next longer do not fit", longest.refused,
      longest.granularity == 1 ? "lengths" : fmt::format("multiples of {}", longest.granularity),
      longest.refused == 1 ? "that is" : "that are");
}

}  // namespace

bool LongestReport::confirmed() const {
  return std::all_of(tried.begin(), tried.end(), [&](const LengthTried& length) {
    return length.fits == (length.tokens == longest.tokens);
  });
}

Table LongestReport::table() const {
  Table table{{{"quantity"}, {"value", true}, {"unit"}}, {}};
  const auto add = [&](const std::string& what, const std::string& value, const std::string& unit) {
    table.rows.push_back({what, value, unit});
  };
  const auto add_bytes = [&](const std::string& what, int64_t bytes, const std::string& of = "") {
    const Quantity size = format_bytes(bytes);
    add(what, size.value, size.unit + of);
  };
  const Quantity parameters = parameters_of(step.with(longest.tokens).model);
  add("parameters", parameters.value, parameters.unit);
  add("model", step.config.model.name, "");
  add("on", on, device);
  add_bytes("memory", memory, " of each rank");
  add("longest sequence", std::to_string(longest.tokens), refused(longest));
  const StageMemory& stage = fullest_stage(longest.memory);
  for (int i = 0; i < kind_count; ++i)
    if (const int64_t bytes = stage.at_peak[static_cast<size_t>(i)]; bytes > 0)
      add_bytes(fmt::format("{} at the peak", name_of(static_cast<Kind>(i))), bytes);
  add_bytes("peak", stage.peak);
  add_bytes("host memory of a rank", longest.memory.host_peak);
  if (!longest.at_least())
    add(fmt::format("{} tokens", longest.tokens + longest.granularity), "does not fit",
        longest.refused_because);
  for (const LengthTried& length : tried)
    add(fmt::format("{} tokens, run", length.tokens), length.fits ? "fits" : "does not fit",
        length.fits ? "peak " + format_bytes(length.peak).text() : length.reason);
  return table;
}

nlohmann::json LongestReport::json() const {
  const StageMemory& stage = fullest_stage(longest.memory);
  nlohmann::json at_peak, runs = nlohmann::json::array();
  for (int i = 0; i < kind_count; ++i)
    at_peak[std::string(name_of(static_cast<Kind>(i)))] = stage.at_peak[static_cast<size_t>(i)];
  for (const LengthTried& length : tried)
    runs.push_back({{"tokens", length.tokens},
                    {"fits", length.fits},
                    {"peak", length.fits ? nlohmann::json(length.peak) : nlohmann::json(nullptr)},
                    {"reason", length.reason}});
  return {{"schema", "frugal.longest/1"},
          {"configuration", to_json(step.with(longest.tokens))},
          {"on", on},
          {"device", device},
          {"memory", memory},
          {"longest_sequence", longest.tokens},
          {"at_least", longest.at_least()},
          {"granularity", longest.granularity},
          {"longer_lengths_refused", longest.refused},
          {"refused_because", longest.refused_because},
          {"at_peak", at_peak},
          {"peak", stage.peak},
          {"host_peak", longest.memory.host_peak},
          {"run", runs},
          {"confirmed", tried.empty() ? nlohmann::json(nullptr) : nlohmann::json(confirmed())},
          {"command", command}};
}

}  // namespace frugal::harness
