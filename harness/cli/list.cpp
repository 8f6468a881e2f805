#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/cli/command_line.h"
#include "harness/report/table.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

std::string paper_of(const Artifact& artifact) {
  return artifact.id().substr(0, artifact.id().find('/'));
}

/// "table4" of "korthikanti2022/table4".
std::string short_name_of(const Artifact& artifact) {
  return artifact.id().substr(artifact.id().find('/') + 1);
}

bool matches(const std::string& name, const Artifact& artifact) {
  return name == paper_of(artifact) || fnmatch(name.c_str(), artifact.id().c_str(), 0) == 0 ||
         fnmatch(name.c_str(), short_name_of(artifact).c_str(), 0) == 0;
}

nlohmann::json as_json(const Artifacts& artifacts) {
  nlohmann::json all = nlohmann::json::array();
  for (const Artifact* artifact : artifacts) {
    nlohmann::json cases = nlohmann::json::array();
    for (const Case& c : artifact->cases({}))
      cases.push_back({{"id", c.id},
                       {"what", what_of(c.workload)},
                       {"on", c.on},
                       {"scale", scale_name(c.scale)}});
    all.push_back({{"id", artifact->id()}, {"title", artifact->title()}, {"cases", cases}});
  }
  return {{"schema", "frugal.list/1"}, {"artifacts", all}};
}

std::string as_text(const Artifacts& artifacts, bool with_cases) {
  if (!with_cases) {
    Table table{{{"artifact"}, {"cases", true}, {"title"}}, {}};
    for (const Artifact* artifact : artifacts)
      table.rows.push_back(
          {artifact->id(), std::to_string(artifact->cases({}).size()), artifact->title()});
    return table.text();
  }
  Table table{{{"artifact"}, {"case"}, {"what"}, {"on"}, {"scale"}}, {}};
  for (const Artifact* artifact : artifacts)
    for (const Case& c : artifact->cases({}))
      table.rows.push_back({artifact->id(), c.id, what_of(c.workload), c.on, scale_name(c.scale)});
  return table.text();
}

}  // namespace

Artifacts select_artifacts(const Artifacts& all, const std::vector<std::string>& names) {
  std::vector<bool> chosen(all.size());
  for (const std::string& name : names) {
    bool any = false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (matches(name, *all[i])) any = chosen[i] = true;
    }
    if (any) continue;
    std::set<std::string> known;
    for (const Artifact* artifact : all)
      known.insert({artifact->id(), paper_of(*artifact), short_name_of(*artifact)});
    const auto similar = nearest(name, {known.begin(), known.end()});
    throw InputError(fmt::format(
        "there is no artifact \"{}\"; {}`frugal list` shows all", name,
        similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", "))));
  }
  Artifacts selected;
  for (size_t i = 0; i < all.size(); ++i)
    if (chosen[i] || names.empty()) selected.push_back(all[i]);
  return selected;
}

void add_list(CommandLine& line) {
  struct Values {
    std::vector<std::string> names;
    std::string format = "table";
  };
  const auto values = std::make_shared<Values>();
  Flags flags = line.command("list", "Papers, artifacts and their cases", [values, &line] {
    const Artifacts artifacts = select_artifacts(line.artifacts(), values->names);
    if (values->format == "json")
      fmt::print("{}\n", as_json(artifacts).dump(2));
    else
      fmt::print("{}", as_text(artifacts, !values->names.empty()));
    return Exit::done;
  });
  flags.positional("ARTIFACT", values->names,
                   "Show the cases of these: ids, the part after the slash, globs or papers",
                   false);
  flags.choice("--format", values->format, {"table", "json"}, "How to print it");
}

}  // namespace frugal::harness
