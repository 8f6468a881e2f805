#include "harness/measure/rerun.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// What messages call it: several cases of `frugal measure` have the same id.
const std::string& called(const Case& c) { return c.title.empty() ? c.id : c.title; }

/// Adds the name of each, once.
void add_names(std::vector<std::string>& names, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    if (std::find(names.begin(), names.end(), called(c)) == names.end()) names.push_back(called(c));
    add_names(names, c.smaller);
  }
}

/// The first of them: there may be hundreds.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t most = 16;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size()));
  const std::string rest =
      names.size() > most ? fmt::format(", and {} others", names.size() - most) : "";
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), rest);
}

}  // namespace

bool Rerun::asks_for(const Case& c, const Record& record) const {
  if (which == failed) return !record.ok() && record.status != Status::skipped;
  return which == all || which == called(c);
}

void Rerun::check(const std::vector<std::vector<Case>>& cases) const {
  std::vector<std::string> names;
  for (const auto& each : cases) add_names(names, each);
  std::vector<std::string> allowed{failed, all};
  allowed.insert(allowed.end(), names.begin(), names.end());
  if (which.empty() || std::find(allowed.begin(), allowed.end(), which) != allowed.end()) return;
  const auto similar = nearest(which, allowed);
  throw InputError(
      fmt::format("--rerun: there is no case \"{}\" here; {}give {}, {}, or one of {}", which,
                  similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", ")),
                  failed, all, listed(names)));
}

}  // namespace frugal::harness
