#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/iteration.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* artifact_name = "section6.3-data-parallel";
constexpr Iteration alone{"530B", present}, eight{"530B", present, 8}, eight_full{"530B", full, 8};

/// Section 6.3: the 530B model on 2240 GPUs, eight replicas of the 280 of table 5, whose gradients
/// are summed when all microbatches are over. The abstract's 54.2 % and 42.1 % are its MFU.
class DataParallel final : public IterationArtifact {
 public:
  DataParallel() : IterationArtifact(artifact_name, {alone, eight, eight_full}) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      const bool time = c.unit != "%";
      claims.push_back(claim_about(
          c, c.row + "/" + c.column, c.row + ": " + c.column + " as the paper has it",
          time ? 0.06 * c.paper.value() : 1.5,
          "6 % of a time, 1.5 points of a utilization: a model of the machine, fitted to table 4 "
          "alone"));
    }
    for (const Setting& setting : records.settings(id())) {
      const Cell ratio = cell(
          "530B", "overhead", "%", setting, records,
          [](const Record& one, const Record& many) {
            return 100 * (seconds(many) / seconds(one) - 1);
          },
          alone, eight);
      Claim claim = claim_about(ratio, "dp-overhead", statement("dp-overhead").says, 1,
                                "a model of the machine: 1 point of the iteration's time");
      claim.paper = statement("dp-overhead").value;
      claims.push_back(std::move(claim));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    return {cell("530B x 1", "iteration", "s", setting, records, seconds, alone),
            cell("530B x 8", "iteration", "s", setting, records, seconds, eight),
            cell("530B x 8", "MFU", "%", setting, records, mfu, eight),
            cell("530B x 8, full recompute", "MFU", "%", setting, records, mfu, eight_full)};
  }
};

}  // namespace

const Artifact& data_parallel() {
  static const DataParallel artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
