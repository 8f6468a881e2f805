#include "experiments/korthikanti2022/steps.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr Iteration alone{"530B", present}, eight{"530B", present, 8}, eight_full{"530B", full, 8};

std::vector<DeclaredCell> data_parallel_cells(const Setting&) {
  return {{"530B x 1", "iteration", "s", {case_id(alone)}, seconds},
          {"530B x 8", "iteration", "s", {case_id(eight)}, seconds},
          {"530B x 8", "MFU", "%", {case_id(eight)}, mfu},
          {"530B x 8, full recompute", "MFU", "%", {case_id(eight_full)}, mfu}};
}

std::vector<Claim> overhead(const Results::InSetting& in) {
  return {claim_of(
      statement("dp-overhead"), "%", in.runs.setting(),
      in.runs.outcome({case_id(alone), case_id(eight)}, [](const Record& one, const Record& many) {
        return 100 * (seconds(many) / seconds(one) - 1);
      }))};
}

}  // namespace

/// Section 6.3: the 530B model on 2240 GPUs, eight replicas of the 280 of table 5, whose gradients
/// are summed when all microbatches are over. The abstract's 54.2 % and 42.1 % are its MFU.
const Artifact& data_parallel() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "section6.3-data-parallel",
       .program = papers_program,
       .cases = iteration_cases({alone, eight, eight_full}),
       .cells = data_parallel_cells,
       .claims = {claims_of_cells({{.id = "{row}/{column}",
                                    .statement = "{row}: {column} as the paper has it"}}),
                  claims_of_settings(overhead)},
       .narrower = utilization_tolerance});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
