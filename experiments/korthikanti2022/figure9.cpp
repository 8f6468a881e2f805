#include <fmt/format.h>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/step_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

/// Cases, and the figure's rows of them.
constexpr const char* keeping = "530B/kept-outputs";
constexpr const char* deallocating = "530B/deallocation";
constexpr std::pair<const char*, const char*> figure9_rows[] = {{"no deallocation", keeping},
                                                                {"deallocation", deallocating}};

/// What figure 9's numbers follow from: full recomputation without sequence parallelism, and a
/// pipeline that is not interleaved.
std::vector<Step> figure9_steps() {
  RunConfig run = step_config(model("530B"), full);
  run.schedule = ScheduleKind::one_forward_one_backward;
  run.chunks = 1;
  std::vector<Step> all{{deallocating, run}, {keeping, run}};
  all.back().config.keep_outputs = true;
  return all;
}

/// Activations and what passes work in, at the peak; without messages on their way and what does
/// not come and go with microbatches.
double in_passes(const StageMemory& stage) {
  return bytes_of(stage.at_peak, Kind::activation) + bytes_of(stage.at_peak, Kind::statistics) +
         bytes_of(stage.at_peak, Kind::workspace);
}

/// Figure 9: memory of each rank of the pipeline.
class Figure9 final : public StepArtifact {
 public:
  Figure9() : StepArtifact("figure9", figure9_steps()) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      if (!c.paper) continue;
      Claim& claim = claims.emplace_back(claim_about(
          c, fmt::format("figure9/{}/{}", c.row, c.column),
          fmt::format("530B, {}, {}: {} GiB of activations", c.row, c.column, c.paper.value()),
          0.05, "lines are read to 0.03 GiB, the first rank's to 0.06 GiB"));
      if (claim.verdict() == Verdict::not_reproduced)
        claim.reason =
            "the figure's lines rise by 4 MiB more per microbatch in flight than inputs of layers "
            "and kept outputs take: as much as a mask of s² bytes would, which this program has "
            "not";
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    const auto ranks = static_cast<size_t>(model("530B").pipeline_parallel);
    for (const auto& [row, id] : figure9_rows)
      for (size_t rank = 0; rank < ranks; ++rank)
        cells.push_back(observe(
            row, fmt::format("rank {}", rank), "GiB", setting, records,
            [&](const auto& found) { return in_passes(stage_of(*found.front(), rank)) / gib; },
            {id}));
    return cells;
  }
};

/// Appendix B: the same two steps, and what the first stage keeps in them.
class AppendixB final : public StepArtifact {
 public:
  AppendixB() : StepArtifact("appendixB", figure9_steps()) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records))
      if (c.paper)
        claims.push_back(claim_about(
            c, "appendixB/530B",
            "530B: the first stage keeps 2.73 GiB less when it gives up what it has sent", 0.005,
            "printed to a hundredth of a GiB"));
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    const auto kept = [](const Record* record) {
      return bytes_of(stage_of(*record, 0).peak_per_kind, Kind::activation);
    };
    return {observe("530B", "saving", "GiB", setting, records,
                    [&](const auto& found) { return (kept(found[0]) - kept(found[1])) / gib; },
                    {keeping, deallocating})};
  }
};

}  // namespace

const Artifact& figure9() {
  static const Figure9 artifact;
  return artifact;
}

const Artifact& appendix_b() {
  static const AppendixB artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
