#include <array>
#include <cmath>

#include "experiments/mst2024/artifacts.h"
#include "experiments/mst2024/length_artifact.h"

namespace frugal::mst2024 {
namespace {

constexpr const char* model = "llama3-8b";
constexpr int gpus = 8;

/// What a row of arXiv:2506.13996 has.
struct Features {
  const char* name;
  bool logits_in_parts = false, ulysses = false, offload = false, mlp_in_parts = false;
};

/// The rows add features one by one.
constexpr std::array on_one = {Features{"baseline"}, Features{"+ fused logits loss", true},
                               Features{"+ activation offload", true, false, true},
                               Features{"+ tiled MLP", true, false, true, true}};
constexpr std::array on_eight = {Features{"baseline"},
                                 Features{"tiled logits + loss", true},
                                 Features{"+ Ulysses", true, true},
                                 Features{"+ tiled MLP", true, true, false, true},
                                 Features{"+ activation offload, no tiled MLP", true, true, true},
                                 Features{"all", true, true, true, true}};

/// As that paper trains, as far as there is the like here: bf16 weights whole on each GPU, a
/// float32 master copy and moments in the host's memory, gradients that are used as soon as they
/// are complete, checkpoints of layers' inputs.
RunConfig config_of(const Features& features, int devices) {
  RunConfig run = training_config(model, recomputation, 1);
  run.precision = Precision::mixed;
  run.offload_optimizer = true;
  if (features.logits_in_parts) run.head_chunks = RunConfig::by_rule;
  if (features.mlp_in_parts) run.mlp_chunks = RunConfig::by_rule;
  run.offload = features.offload;
  (features.ulysses ? run.context_parallel : run.data_parallel) = devices;
  return run;
}

/// Not the paper's: what a later one reports of these techniques on newer GPUs: lengths, and for
/// some the peak of a step of the reported length.
class Anchors final : public LengthArtifact {
 public:
  template <size_t n>
  Anchors(const std::string& name, const std::string& machine, const std::array<Features, n>& rows,
          int devices)
      : LengthArtifact(name, machine, searches(name, rows, devices), "no ratios"), name_(name) {
    for (const Features& row : rows) rows_.emplace_back(row.name);
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    const Place place{setting, records};
    std::vector<Cell> cells;
    for (const std::string& row : rows_) {
      cells.push_back(length(place, row, "length", row));
      if (has_peak(name_, row)) cells.push_back(peak(place, row, "peak", at_reported_length(row)));
    }
    return cells;
  }

 private:
  static bool has_peak(const std::string& name, const std::string& row) {
    return paper().find_cell(name, row, "peak") != nullptr;
  }

  template <size_t n>
  static std::vector<Search> searches(const std::string& name, const std::array<Features, n>& rows,
                                      int devices) {
    std::vector<Search> all;
    for (const Features& row : rows) {
      const RunConfig run = config_of(row, devices);
      all.push_back({.id = row.name, .config = run});
      if (has_peak(name, row.name))
        all.push_back({.id = at_reported_length(row.name),
                       .config = run,
                       .tokens = std::lround(1000 * paper().cell(name, row.name, "length").value)});
    }
    return all;
  }

  std::string name_;
  std::vector<std::string> rows_;
};

}  // namespace

std::vector<const Artifact*> anchors() {
  static const Anchors one("one-h200", "h200-hgx", on_one, 1),
      eight("eight-h100", "h100-dgx", on_eight, gpus);
  return {&one, &eight};
}

}  // namespace frugal::mst2024
