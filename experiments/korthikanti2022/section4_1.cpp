#include <array>

#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/layers.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

/// Of a layer, as the section divides it and as the ledger does.
struct PartOfLayer {
  const char* name;
  int64_t LayerParts::*printed;
  engine::Part part;
};
constexpr std::array parts_of_layer{
    PartOfLayer{"attention", &LayerParts::attention, engine::Part::attention},
    PartOfLayer{"MLP", &LayerParts::mlp, engine::Part::mlp},
    PartOfLayer{"layer norms", &LayerParts::norms, engine::Part::norm}};

/// Without the statistics, which are the norms' and which the paper neglects.
double kept_by(const Record& record, engine::Part part) {
  const HeldPerPart& held = record.memory.value().stages.at(0).kept;
  const auto bytes = static_cast<double>(held[static_cast<size_t>(part)].bytes);
  return bytes - (part == engine::Part::norm ? bytes_kept(record, Kind::statistics) : 0);
}

std::vector<DeclaredCell> part_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const PartOfLayer& of : parts_of_layer)
    for (const Model& each : models()) {
      const std::string& name = each.config.name;
      cells.push_back(
          layer_cell(of.name, name, "bytes", name, {serial},
                     [part = of.part](const Record& record) { return kept_by(record, part); }));
      cells.back().formula =
          layer_formula(each, serial, [printed = of.printed](const RunConfig& run) {
            return layer_activation_parts(run).*printed;
          });
    }
  return cells;
}

}  // namespace

/// Section 4.1: which part of a layer keeps how much of table 2's first row.
const Artifact& parts_of_a_layer() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "section4.1",
       .cases = layer_cases({.techniques = {serial}}),
       .cells = part_cells,
       .any_size = true,
       .divided = true,
       .claims = {
           claims_of_cells({{.about = [](const Cell& c) { return c.reference().has_value(); },
                             .id = "section4.1/{row}/{column}",
                             .statement = "{column}: what a layer keeps for its {row} is exactly "
                                          "the bytes of its formula"}})}});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
