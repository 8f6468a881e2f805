#include <array>

#include "experiments/korthikanti2022/layers.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

double median_forward(const Record& r) { return median(r.samples(metric::forward_time)); }
double median_backward(const Record& r) { return median(r.samples(metric::backward_time)); }
double layer_time(const Record& r) { return median_forward(r) + median_backward(r); }

/// A bar: a technique, and the same without what it computes again.
struct Bar {
  const char* name;
  Technique technique, without;
};
constexpr std::array bars{Bar{"full recompute", full, baseline},
                          Bar{"present work", present, sequence}};

/// A ratio of two backward passes says what is computed again; it is not timed apart.
using Part = double (*)(const Record& ours, const Record& without);
constexpr std::array<std::pair<const char*, Part>, 4> parts{
    {{"forward", [](const Record& ours, const Record&) { return median_forward(ours); }},
     {"backward", [](const Record&, const Record& without) { return median_backward(without); }},
     {"recompute",
      [](const Record& ours, const Record& without) {
        return median_backward(ours) - median_backward(without);
      }},
     {"total", [](const Record& ours, const Record&) { return layer_time(ours); }}}};

std::vector<DeclaredCell> figure8_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const Model& of : models())
    for (const Bar& bar : bars)
      for (const auto& [column, part] : parts)
        cells.push_back(layer_cell(
            of.config.name + ", " + bar.name, column, "%", of.config.name,
            {baseline, bar.technique, bar.without},
            [part = part](const Record& base, const Record& ours, const Record& without) {
              return 100 * part(ours, without) / layer_time(base);
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
