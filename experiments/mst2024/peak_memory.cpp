#include <fmt/format.h>

#include <array>

#include "experiments/mst2024/artifacts.h"
#include "experiments/mst2024/differences.h"
#include "experiments/mst2024/paper.h"
#include "experiments/step_artifact.h"

namespace frugal::mst2024 {
namespace {

/// A step as a row of tables 8 to 11 has it.
struct MemoryRow {
  const char* name;
  Technique technique;
  Gradients gradients;
};
constexpr std::array memory_rows{
    MemoryRow{"vanilla", vanilla, Gradients::resident},
    MemoryRow{"optimizer in backward", vanilla, Gradients::stepped},
    MemoryRow{"activation recomputation", recomputation, Gradients::stepped},
    MemoryRow{"mini-sequence", mini_sequence, Gradients::stepped},
};

constexpr const char* llama3_8b = "llama3-8b";
constexpr int64_t tables_tokens = 4096, figure3_tokens = 20000;

std::vector<Step> steps(int64_t tokens) {
  std::vector<Step> all;
  for (const MemoryRow& row : memory_rows)
    all.push_back({row.name, training_config(llama3_8b, row.technique, tokens, row.gradients)});
  return all;
}

const BytesPerKind& at_peak(const Record& record) { return stage_of(record, 0).at_peak; }

/// What the paper calls activations: all that a pass makes, whether or not it is kept for another.
double activations(const Record& record) {
  double sum = 0;
  for (const Kind kind : {Kind::activation, Kind::statistics, Kind::workspace, Kind::communication})
    sum += bytes_of(at_peak(record), kind);
  return sum;
}

/// One sequence of Llama3-8B on one A100.
class PeakArtifact : public StepArtifact {
 public:
  PeakArtifact(std::string name, int64_t tokens)
      : StepArtifact(paper(), std::move(name), papers_machine, steps(tokens)) {}

 protected:
  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records))
      if (c.paper)
        claims.push_back(claim_about(
            c,
            fmt::format("{}/{}/{}", c.artifact.substr(c.artifact.find('/') + 1), c.row, c.column),
            fmt::format("{}: {} of {} {}", c.row, c.column, *c.paper, c.unit), 0.5,
            "printed as a whole number"));
    return claims;
  }

  /// GiB of a case.
  Cell cell(const char* row, const char* column, const Setting& setting, const Records& records,
            const char* case_id, double (*bytes)(const Record&)) const {
    const auto number = [&](const auto& found) { return bytes(*found.front()) / gib; };
    Cell cell = observe(row, column, "GiB", setting, records, number, {case_id});
    if (const Found found = find_case(records, id(), case_id, setting);
        found.record != nullptr && cell.paper)
      cell.note = fmt::format("{}: {}", row, breakdown(found.record->memory.value()));
    explain(cell);
    return cell;
  }
};

template <Kind kind>
double bytes_in(const Record& record) {
  return bytes_of(at_peak(record), kind);
}
double stage_peak(const Record& record) { return static_cast<double>(stage_of(record, 0).peak); }
double nothing(const Record& /*record*/) { return 0; }

/// What is in memory at the moment when most is.
class Tables8To11 final : public PeakArtifact {
 public:
  Tables8To11() : PeakArtifact("tables8-11", tables_tokens) {}

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    constexpr std::array<std::pair<const char*, double (*)(const Record&)>, 6> columns{
        {{"activation", activations},
         {"weight", bytes_in<Kind::parameter>},
         {"gradient", bytes_in<Kind::gradient>},
         {"optimizer state", bytes_in<Kind::optimizer>},
         {"optimizer intermediate", nothing},
         {"peak", stage_peak}}};
    std::vector<Cell> cells;
    for (const MemoryRow& row : memory_rows)
      for (const auto& [column, bytes] : columns)
        cells.push_back(cell(row.name, column, setting, records, row.name, bytes));
    return cells;
  }
};

/// The peaks of two of these rows. The paper's standard has 67 GiB, to which a run whose optimizer
/// steps in backward is nearest.
class Figure11 final : public PeakArtifact {
 public:
  Figure11() : PeakArtifact("figure11", tables_tokens) {}

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    return {cell("standard", "peak", setting, records, "optimizer in backward", stage_peak),
            cell("mini-sequence", "peak", setting, records, "mini-sequence", stage_peak)};
  }
};

/// How many times recomputation and mini-sequences each divide the activations.
class Figure3 final : public PeakArtifact {
 public:
  Figure3() : PeakArtifact("figure3", figure3_tokens) {}

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    const auto ratio = [&](const char* column, const char* of, const char* over) {
      cells.push_back(
          observe(llama3_8b, column, "x", setting, records,
                  [](const auto& found) { return activations(*found[0]) / activations(*found[1]); },
                  {of, over}));
      explain(cells.back());
    };
    ratio("vanilla / activation recomputation", "optimizer in backward", recomputation.name);
    ratio("activation recomputation / mini-sequence", recomputation.name, mini_sequence.name);
    for (const MemoryRow& row : memory_rows)
      if (row.gradients == Gradients::stepped)
        cells.push_back(cell(row.name, "activation", setting, records, row.name, activations));
    return cells;
  }
};

}  // namespace

std::vector<const Artifact*> memory_in_peak() {
  static const Tables8To11 tables;
  static const Figure11 figure11;
  static const Figure3 figure3;
  return {&tables, &figure11, &figure3};
}

}  // namespace frugal::mst2024
