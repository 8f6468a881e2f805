#include <fmt/format.h>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/layer_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* saved = "activation memory saved";
constexpr const char* flops = "additional FLOPs";
constexpr const char* flops_core = "additional FLOPs, attention core counted as its forward pass";
constexpr const char* reduction = "memory reduction";

double activations(const Record& record) { return bytes_kept(record, Kind::activation); }

/// Percent of equation 7 that `recomputing` executed beyond `keeping`, in all layers of the model.
double additional_flops(const Record& recomputing, const Record& keeping) {
  const RunConfig& run = recomputing.config;
  const double per_layer = recomputing.flops.value().hardware - keeping.flops.value().hardware;
  return 100 * per_layer * static_cast<double>(run.model.layers) /
         model_flops(run.model, static_cast<double>(run.micro_batch));
}

double additional_flops_eq8(const ModelConfig& model) {
  return 100 * (hardware_flops_eq8(model, 1) / model_flops(model, 1) - 1);
}

/// Section 5 and the abstract: what selective recomputation saves and costs, from the memory and
/// the matrix products that one layer executes.
class Section5 final : public LayerArtifact {
 public:
  Section5()
      : LayerArtifact("section5", {.what = Case::What::module_memory,
                                   .models = {"22B", "175B", "530B", "1T"},
                                   .techniques = {baseline, sequence, present},
                                   .cpu_scale = 32,
                                   .cpu_type = DType::bf16,
                                   .cpu_micro_batch = std::nullopt}) {}

  std::vector<Cell> cells(const Records& records) const override {
    std::vector<Cell> all = LayerArtifact::cells(records);
    for (const char* name : {"175B", "530B"}) {
      const ModelConfig& m = model(name).config;
      const std::pair<const char*, double> formulas[] = {
          {flops, additional_flops_eq8(m)}, {flops_core, 100 * core_recompute_fraction(m)}};
      for (const auto& [column, value] : formulas) {
        all.push_back(make_cell(name, column, "%", {Source::formula, "", 1}, {Estimate{value}}));
      }
    }
    return all;
  }

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      if (c.column == reduction) claims.push_back(reduction_claim(c));
      if (c.column == saved) claims.push_back(saved_claim(c));
      if (c.column != flops) continue;
      if (c.source != Source::formula) claims.push_back(cost_claim(c));
      claims.push_back(equation_claim(c));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    const auto add = [&](const std::string& name, const char* column, const char* unit,
                         const Technique& without, const auto& compare) {
      if (!layers(records, name, setting).expects(without, present)) return;
      const auto estimate = [&](const Record& before, const Record& after) {
        return Estimate{compare(after, before)};
      };
      cells.push_back(
          make_cell(name, column, unit, setting,
                    layers(records, name, setting).observe(estimate, without, present)));
    };
    for (const char* name : {"175B", "530B"}) {
      add(name, saved, "%", sequence, [](const Record& after, const Record& before) {
        return 100 * (1 - activations(after) / activations(before));
      });
      add(name, flops, "%", sequence, additional_flops);
    }
    for (const std::string& name : model_names())
      add(name, reduction, "x", baseline, [](const Record& after, const Record& before) {
        return activations(before) / activations(after);
      });
    return cells;
  }

 private:
  static Claim reduction_claim(const Cell& c) {
    return claim_about(c, "memory-5x/" + c.row,
                       fmt::format("{}: activation memory reduced {}x (abstract: about 5x)", c.row,
                                   c.paper.value()),
                       0.005, "table 2's formulas give the ratio, rounded to two decimals");
  }
  static Claim saved_claim(const Cell& c) {
    return claim_about(c, "selective-gpt3/" + c.row + "/memory",
                       fmt::format("{}: selective recomputation saves {} % of activation memory",
                                   c.row, c.paper.value()),
                       0.5, "printed to whole percent");
  }
  static Claim cost_claim(const Cell& c) {
    Claim claim =
        claim_about(c, "selective-gpt3/" + c.row + "/flops",
                    fmt::format("{}: selective recomputation costs no more than {} % FLOPs", c.row,
                                c.paper.value()),
                    0.05, "printed to a tenth of a percent");
    claim.relation = Claim::Relation::at_most;
    return claim;
  }
  /// The printed percentages follow from equations 7 and 8, but not from what recomputing executes.
  static Claim equation_claim(const Cell& c) {
    Claim claim =
        claim_about(c, "equation-8/" + c.row,
                    fmt::format("{}: hardware FLOPs exceed model FLOPs by {} % (equations 7 and 8)",
                                c.row, c.paper.value()),
                    0.05, "printed to a tenth of a percent");
    claim.expected = c.source != Source::formula;
    if (claim.expected && c.value)
      claim.reason =
          "a contradiction of the paper: computing the attention core again adds its forward pass, "
          "s/(18h); equation 8 charges three times that, s/(6h)";
    return claim;
  }
};

}  // namespace

const Artifact& section5() {
  static const Section5 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
