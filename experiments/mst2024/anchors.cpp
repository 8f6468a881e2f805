#include <cmath>

#include "experiments/mst2024/lengths.h"

namespace frugal::experiments::mst2024 {
namespace {

constexpr const char *anchors_model = "llama3-8b", *later_program = "hugging-face-2025";

/// What a row of arXiv:2506.13996 has.
struct Features {
  const char* name;
  bool logits_in_parts = false, ulysses = false, offload = false, mlp_in_parts = false;
};

/// The rows add features one by one.
const std::vector<Features> on_one{Features{"baseline"}, Features{"+ fused logits loss", true},
                                   Features{"+ activation offload", true, false, true},
                                   Features{"+ tiled MLP", true, false, true, true}};
const std::vector<Features> on_eight{
    Features{"baseline"},
    Features{"tiled logits + loss", true},
    Features{"+ Ulysses", true, true},
    Features{"+ tiled MLP", true, true, false, true},
    Features{"+ activation offload, no tiled MLP", true, true, true},
    Features{"all", true, true, true, true}};

/// As that paper trains, as far as there is the like here: bf16 weights whole on each GPU, a
/// float32 master copy and moments in the host's memory, gradients that are used as soon as they
/// are complete, checkpoints of layers' inputs.
RunConfig config_of(const Features& features, int devices) {
  RunConfig run = training_config(anchors_model, recomputation, 1);
  run.precision = Precision::mixed;
  run.offload_optimizer = true;
  if (features.logits_in_parts) run.head_chunks = RunConfig::by_rule;
  if (features.mlp_in_parts) run.mlp_chunks = RunConfig::by_rule;
  run.offload = features.offload;
  (features.ulysses ? run.context_parallel : run.data_parallel) = devices;
  return run;
}

bool has_peak(const std::string& name, const std::string& row) {
  return paper().find_cell(name, row, "peak") != nullptr;
}

Declaration anchor(const std::string& name, const std::string& machine, int devices,
                   const std::vector<Features>& rows) {
  std::vector<Search> searches;
  std::vector<DeclaredCell> cells;
  for (const Features& features : rows) {
    const std::string row = features.name;
    const RunConfig run = config_of(features, devices);
    searches.push_back({row, run});
    cells.push_back(length(row, "length", row));
    if (!has_peak(name, row)) continue;
    searches.push_back({at_reported_length(row), run,
                        std::lround(1000 * paper().cell(name, row, "length").value)});
    cells.push_back(peak(row, "peak", at_reported_length(row)));
  }
  return {.paper = paper(),
          .name = name,
          .program = later_program,
          .cases = search_cases(machine, std::move(searches)),
          .cells = [cells = std::move(cells)](const Setting&) { return cells; },
          .complete = complete_length};
}

}  // namespace

/// Not the paper's: what a later one reports of these techniques on newer GPUs: lengths, and for
/// some the peak of a step of the reported length.
std::vector<const Artifact*> anchors() {
  static const DeclaredArtifact one(anchor("one-h200", "h200-hgx", 1, on_one)),
      eight(anchor("eight-h100", "h100-dgx", 8, on_eight));
  return {&one, &eight};
}

}  // namespace frugal::experiments::mst2024
