#include "experiments/korthikanti2022/steps.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr const char* outside_model = "22B";

/// What is kept outside the layers, as percent of what is kept in them.
double outside_layers(const Record& record) {
  const StageMemory& stage = stage_of(record, 0);
  const auto in_layers = static_cast<double>(stage.peak_in_layers);
  return 100 * (bytes_of(stage.peak_per_kind, Kind::activation) / in_layers - 1);
}

std::vector<DeclaredCell> outside_cells(const Setting&) {
  return {{outside_model,
           "outside the layers",
           "%",
           {case_id(outside_model, sequence)},
           outside_layers}};
}

}  // namespace

/// Section 4.3: activations outside the layers, with tensor and sequence parallelism and one stage.
/// The paper's formula gives 0.57 %, its sentence less than 0.01 %.
const Artifact& outside() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "section4.3",
       .cases = step_memory_cases(papers_machine, {{case_id(outside_model, sequence),
                                                    step_config(model(outside_model), sequence)}}),
       .cells = outside_cells,
       .claims = {claims_of_cells(
           {{.id = "outside-layers",
             .statement = "{row}: what is kept outside the layers is {paper} % of what is kept in "
                          "them, as the formula says, and not under 0.01 %, as the text does"}})}});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
