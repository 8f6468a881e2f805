#include <fmt/format.h>

#include <algorithm>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/step_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* state = "parameters and optimizer state";
constexpr const char* total_baseline = "total, baseline";
constexpr const char* total_present = "total, present work";
constexpr const char* most_baseline = "most of a stage, baseline";
constexpr const char* most_present = "most of a stage, present work";

std::vector<Step> figure1_steps() {
  std::vector<Step> all;
  for (const Model& m : models())
    for (const Technique& technique : {baseline, present})
      all.push_back({fmt::format("{}/{}", m.config.name, technique.id), step_config(m, technique)});
  return all;
}

/// Weights, gradients and optimizer state of a GPU: the mean over the stages, because the paper
/// divides the model by all GPUs.
double mean_state(const Record& record) {
  double sum = 0;
  for (const StageMemory& stage : record.memory.value().stages)
    for (const Kind kind : {Kind::parameter, Kind::gradient, Kind::optimizer})
      sum += bytes_of(stage.peak_per_kind, kind);
  return sum / static_cast<double>(record.memory->stages.size());
}

/// With the activations in the layers of the first stage (equations 5 and 6).
double stage_total(const Record& record) {
  return mean_state(record) + static_cast<double>(stage_of(record, 0).peak_in_layers);
}

double most(const Record& record) {
  const auto& stages = record.memory.value().stages;
  return static_cast<double>(
      std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
        return a.peak < b.peak;
      })->peak);
}

/// Figure 1: what a GPU holds, as the paper counts it, and what the stage that holds most takes in
/// all.
class Figure1 final : public StepArtifact {
 public:
  Figure1() : StepArtifact("figure1", figure1_steps()) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      if (c.paper)
        claims.push_back(claim_about(
            c, fmt::format("figure1/{}/{}", c.row, c.column),
            fmt::format("{}: {}, {} GiB on a GPU", c.row, c.column, c.paper.value()), 0.5,
            "bars are read to 0.3 GiB; the last stage's copy of the token table, up to 0.17 GiB, "
            "is not in the paper's count"));
      if (c.scale == 1 && (c.column == most_baseline || c.column == most_present))
        claims.push_back(capacity_claim(c));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    for (const Model& m : models()) {
      const std::string& name = m.config.name;
      const auto add = [&](const char* column, const Technique& technique, const auto& bytes) {
        cells.push_back(observe(name, column, "GiB", setting, records,
                                [&](const auto& found) { return bytes(*found.front()) / gib; },
                                {fmt::format("{}/{}", name, technique.id)}));
      };
      add(state, present, mean_state);
      add(total_baseline, baseline, stage_total);
      add(total_present, present, stage_total);
      add(most_baseline, baseline, most);
      add(most_present, present, most);
    }
    return cells;
  }

 private:
  /// Section 6.1, of everything that is held.
  static Claim capacity_claim(const Cell& c) {
    const bool fits = c.column == most_present;
    Claim claim = claim_about(
        c, fmt::format("{}/{}", fits ? "with-both-it-fits" : "without-both-nothing-fits", c.row),
        fmt::format("{}: {} sequence parallelism and selective recomputation it {} 80 GB", c.row,
                    fits ? "with" : "without", fits ? "fits in" : "needs more than"),
        0, "a GPU has 80 GiB, and not a byte more");
    claim.paper = statement("without-both-nothing-fits").value;
    claim.relation = fits ? Claim::Relation::at_most : Claim::Relation::at_least;
    return claim;
  }
};

}  // namespace

const Artifact& figure1() {
  static const Figure1 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
