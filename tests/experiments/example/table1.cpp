/// An artifact as HACKING.md describes it: this file, its numbers in paper.json, and a line.
#include "tests/experiments/example/table1.h"

#include "experiments/cases.h"
#include "experiments/declaration.h"
#include "tests/support/source_dir.h"

namespace frugal::experiments::example {
namespace {

constexpr const char* activations = "activations";

const Paper& paper() {  // of a paper of experiments/: Paper("ID")
  static const Paper all(
      "example", read_text(testing::source_dir() + "/tests/experiments/example/paper.json"));
  return all;
}

std::vector<Case> cases(const Selection& selection) {
  std::vector<Case> all;
  for (const Setting& setting : settings_of(selection, "a100-selene", 2))
    for (const PaperCell& row : paper().cells_of("table1")) {
      if (row.column != activations) continue;
      Case& c = all.emplace_back(Case{.id = row.row, .config = {}, .on = setting.on});
      c.config.model = {
          .name = "tiny", .layers = 1, .hidden = 128, .heads = 4, .sequence = 64, .vocabulary = 64};
      c.config.type = DType::bf16;
      c.config.micro_batch = 2;
      c.config.stored_masks = true;
      c.config.recompute = row.row == "selective" ? Recompute::selective : Recompute::none;
      scale_down(c, setting.scale, c.id);
    }
  return all;
}

double kept(const Record& record) {
  return bytes_of(record.memory.value().after_forward.value(), Kind::activation);
}

std::vector<DeclaredCell> cells(const Setting&) {
  return {{"none", activations, "bytes", {"none"}, kept},
          {"selective", activations, "bytes", {"selective"}, kept},
          {"selective", "saving", "%", {"none", "selective"}, [](const Record& a, const Record& b) {
             return 100 * (1 - kept(b) / kept(a));
           }}};
}

}  // namespace

const Artifact& table1() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "table1",
       .cases = cases,
       .cells = cells,
       .claims = {claims_of_cells(
           {{.about = [](const Cell& c) { return c.paper && c.unit == "bytes"; },
             .id = "table1/{row}",
             .statement = "{row}: a layer keeps {paper} bytes"},
            {.about = [](const Cell& c) { return c.paper && c.unit == "%"; },
             .id = "table1/{row}/{column}",
             .statement = "{row} recomputation saves {paper} % of the {artifact}'s bytes"}})}});
  return artifact;
}

}  // namespace frugal::experiments::example
