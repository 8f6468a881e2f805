#include <array>

#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/layers.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr std::array table2_rows{
    Named{"no parallelism", serial},
    Named{"tensor parallel (baseline)", baseline},
    Named{"tensor + sequence parallel", sequence},
    Named{"tensor parallel + selective recompute", selective},
    Named{"tensor + sequence parallel + selective recompute", present},
    Named{"full recompute", full},
};

template <Kind kind>
double kept(const Record& record) {
  return bytes_kept(record, kind);
}

std::vector<DeclaredCell> table2_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const Named& row : table2_rows)
    for (const Model& of : models()) {
      const std::string &name = of.config.name, row_name{row.name};
      cells.push_back(
          layer_cell(row_name, name, "bytes", name, {row.technique}, kept<Kind::activation>));
      // The paper prints formulas, and no bytes.
      cells.back().formula = layer_formula(of, row.technique, layer_activation_bytes);
      cells.push_back(layer_cell(row_name, name + ", statistics", "bytes", name, {row.technique},
                                 kept<Kind::statistics>));
    }
  return cells;
}

}  // namespace

/// Table 2: a layer's activations are what the ledger holds for it after its forward pass.
const Artifact& table2() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "table2",
       .cases = layer_cases({.techniques = {serial, baseline, sequence, selective, present, full}}),
       .cells = table2_cells,
       .any_size = true,
       .divided = true,
       .claims = {claims_of_cells(
           {{.about = [](const Cell& c) { return c.reference().has_value(); },
             .id = "table2/{row}/{column}",
             .statement =
                 "{column}: a layer with {row} keeps exactly the bytes of its formula"}})}});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
