#include <array>

#include "experiments/korthikanti2022/layers.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

/// A bar: a technique, and the same without what it computes again.
struct Bar {
  const char* name;
  Technique technique, without;
};
constexpr std::array bars{Bar{"full recompute", full, baseline},
                          Bar{"present work", present, sequence}};

/// Seconds of each round. What is computed again is the difference of two backward passes; it is
/// not timed apart.
using Part = Samples (*)(const Record& ours, const Record& without);
constexpr std::array<std::pair<const char*, Part>, 4> parts{
    {{"forward", [](const Record& ours, const Record&) { return forward_samples(ours); }},
     {"backward", [](const Record&, const Record& without) { return backward_samples(without); }},
     {"recompute",
      [](const Record& ours, const Record& without) {
        return combine(backward_samples(ours), backward_samples(without), std::minus<>());
      }},
     {"total", [](const Record& ours, const Record&) { return combined(ours); }}}};

Estimate percent_of(const Record& base, const Record& ours, const Record& without, Part part) {
  require_same_rounds({&base, &ours, &without});
  require_still_forward(ours, without);
  return exact_median(combine(part(ours, without), combined(base),
                              [](double some, double all) { return 100 * some / all; }));
}

std::vector<DeclaredCell> figure8_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const Model& of : models())
    for (const Bar& bar : bars)
      for (const auto& [column, part] : parts)
        cells.push_back(layer_cell(
            of.config.name + ", " + bar.name, column, "%", of.config.name,
            {baseline, bar.technique, bar.without},
            [part = part](const Record& base, const Record& ours, const Record& without) {
              return percent_of(base, ours, without, part);
            }));
  return cells;
}

}  // namespace

/// Figure 8: forward, backward and recompute time of a layer of each model, as percentages of the
/// baseline layer's, which computes nothing again and has no sequence parallelism.
const Artifact& figure8() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "figure8",
       .program = papers_program,
       .cases = layer_cases({.observed = workload::ModuleTime{},
                             .techniques = {baseline, sequence, full, present},
                             .cpu_scale = 0}),
       .cells = figure8_cells,
       .any_size = true,
       .divided = true,
       .claims = {claims_of_cells(
           {{.about = [](const Cell& c) { return c.paper && c.column == "total"; },
             .id = "figure8/{row}",
             .statement = "{row}: {paper} % of the baseline layer's time"}})},
       .narrower = [](const Cell&) {
         return policy::Tolerance{3, "3 points of the baseline's time"};
       }});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
