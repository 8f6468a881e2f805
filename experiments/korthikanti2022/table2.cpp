#include <fmt/format.h>

#include <array>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/layer_artifact.h"
#include "kernels/support/error.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr std::array table2_rows{
    Named{"no parallelism", serial},
    Named{"tensor parallel (baseline)", baseline},
    Named{"tensor + sequence parallel", sequence},
    Named{"tensor parallel + selective recompute", selective},
    Named{"tensor + sequence parallel + selective recompute", present},
    Named{"full recompute", full},
};

/// Table 2's formula at 1/k of the model's size, where k divides it.
std::optional<double> printed(const Model& model, const Technique& technique, int64_t k) try {
  return static_cast<double>(layer_activation_bytes(layer_config(model, technique, k)));
} catch (const InputError&) {
  return std::nullopt;
}

/// The paper prints formulas, and no bytes: those of its models follow from them, those of smaller
/// ones are none of the paper's.
void compare(Cell& cell, const std::optional<double>& printed) {
  (cell.scale == 1 ? cell.paper : cell.formula) = printed;
  if (cell.paper) cell.read = "derived";
}

/// Table 2: a layer's activations are what the ledger holds for it after its forward pass.
class Table2 final : public LayerArtifact {
 public:
  Table2()
      : LayerArtifact("table2",
                      {.what = Case::What::module_memory,
                       .models = {"22B", "175B", "530B", "1T"},
                       .techniques = {serial, baseline, sequence, selective, present, full},
                       .cpu_scale = 8,
                       .cpu_type = DType::bf16,
                       .cpu_micro_batch = std::nullopt}) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records))
      if (c.reference())
        claims.push_back(
            claim_about(c, fmt::format("table2/{}/{}", c.row, c.column),
                        fmt::format("{}: a layer with {} keeps exactly the bytes of its formula",
                                    c.column, c.row),
                        0, "the formula counts whole bytes; what it neglects is shown apart"));
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    for (const auto& [row, recipe] : table2_rows)
      for (const std::string& name : model_names()) {
        const Technique& technique = recipe;  // a lambda may not capture a binding
        if (!layers(records, name, setting).expects(technique)) continue;
        const auto bytes = [&](Kind kind) {
          return layers(records, name, setting)
              .observe([&](const Record& r) { return Estimate{bytes_kept(r, kind)}; }, technique);
        };
        cells.push_back(make_cell(row, name, "bytes", setting, bytes(Kind::activation)));
        compare(cells.back(), printed(model(name), technique, setting.scale));
        cells.push_back(
            make_cell(row, name + ", statistics", "bytes", setting, bytes(Kind::statistics)));
      }
    return cells;
  }
};

}  // namespace

const Artifact& table2() {
  static const Table2 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
