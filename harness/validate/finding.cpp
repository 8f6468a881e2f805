#include "harness/validate/finding.h"

#include <nlohmann/json.hpp>

namespace frugal::harness {

Finding skipped_finding(std::string group, std::string name, std::string reason,
                        std::string advice) {
  Finding check;
  check.group = std::move(group);
  check.name = std::move(name);
  check.outcome = Finding::Outcome::skipped;
  check.reason = std::move(reason);
  check.advice = std::move(advice);
  return check;
}

nlohmann::json to_json(const Finding& check) {
  nlohmann::json number = nullptr;
  if (check.number) {
    const Finding::Number& n = *check.number;
    nlohmann::json interval = nullptr;
    if (n.seen.interval) interval = {n.seen.interval->low, n.seen.interval->high};
    number = {{"unit", n.unit},
              {"value", n.seen.value},
              {"interval", interval},
              {"samples", n.seen.samples},
              {"expected", n.expected.value},
              {"source", n.expected.source},
              {"limit", n.limit}};
  }
  return {{"group", check.group},
          {"name", check.name},
          {"outcome", name_of(check.outcome)},
          {"expected", check.expected},
          {"seen", check.seen},
          {"band", check.band},
          {"reason", check.reason},
          {"advice", check.advice},
          {"number", number},
          {"computes_wrongly", check.computes_wrongly},
          {"seconds", check.seconds}};
}

}  // namespace frugal::harness
