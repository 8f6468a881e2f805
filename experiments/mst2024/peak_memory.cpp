#include <fmt/format.h>

#include <array>

#include "experiments/artifacts.h"
#include "experiments/cases.h"
#include "experiments/declaration.h"
#include "experiments/mst2024/paper.h"

namespace frugal::experiments::mst2024 {
namespace {

/// A step as a row of tables 8 to 11 has it.
struct MemoryRow {
  const char* name;
  Technique technique;
  Gradients gradients;
};
constexpr const char* stepped_vanilla = "optimizer in backward";
constexpr const char* standard = "activation recomputation, gradients stay";
constexpr std::array memory_rows{
    MemoryRow{vanilla.name, vanilla, Gradients::resident},
    MemoryRow{stepped_vanilla, vanilla, Gradients::stepped},
    MemoryRow{recomputation.name, recomputation, Gradients::stepped},
    MemoryRow{mini_sequence.name, mini_sequence, Gradients::stepped},
};

constexpr const char* llama3_8b = "llama3-8b";

std::vector<Step> steps(int64_t tokens) {
  std::vector<Step> all;
  for (const MemoryRow& row : memory_rows)
    all.push_back({row.name, training_config(llama3_8b, row.technique, tokens, row.gradients)});
  all.push_back({standard, training_config(llama3_8b, recomputation, tokens, Gradients::resident)});
  return all;
}

/// What the paper calls activations: all that a pass makes, whether or not it is kept for another.
double activations(const Record& record) {
  double sum = 0;
  for (const Kind kind : {Kind::activation, Kind::statistics, Kind::workspace, Kind::communication})
    sum += bytes_of(stage_of(record, 0).at_peak, kind);
  return sum;
}

double stage_peak(const Record& record) { return static_cast<double>(stage_of(record, 0).peak); }

using Bytes = double (*)(const Record&);
DeclaredCell gib_of(const char* row, const char* column, const char* case_id, Bytes bytes) {
  return {
      row, column, "GiB", {case_id}, [bytes](const Record& record) { return bytes(record) / gib; }};
}

template <Kind kind>
double held(const Record& record) {
  return bytes_of(stage_of(record, 0).held, kind);
}
/// What the optimizer has at most beside its state.
double intermediate(const Record& record) {
  return bytes_of(stage_of(record, 0).peak_per_kind, Kind::optimizer) -
         held<Kind::optimizer>(record);
}
/// The most that a gradient takes which stays until the backward pass ends.
double gradients(const Record& record) {
  return bytes_of(stage_of(record, 0).peak_per_kind, Kind::gradient);
}
/// All that is there at the peak beside weights and optimizer state, where gradients do not stay.
double beside_what_is_held(const Record& record) {
  return stage_peak(record) - held<Kind::parameter>(record) - held<Kind::optimizer>(record);
}

/// What is in memory at the moment when most is. Gradients that stay, and what the optimizer makes,
/// are most behind the backward pass; activations of such a step are those of one that steps in
/// backward, where they are what there is most of.
std::vector<DeclaredCell> tables8_to_11(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const MemoryRow& row : memory_rows) {
    const auto add = [&](const char* column, Bytes bytes) {
      cells.push_back(gib_of(row.name, column, row.name, bytes));
    };
    const bool stays = row.gradients == Gradients::resident;
    cells.push_back(gib_of(row.name, "activation", stays ? stepped_vanilla : row.name,
                           stays ? activations : beside_what_is_held));
    add("weight", held<Kind::parameter>);
    if (stays) add("gradient", gradients);
    add("optimizer state", held<Kind::optimizer>);
    if (stays) add("optimizer intermediate", intermediate);
    add("peak", stage_peak);
  }
  return cells;
}

/// Peaks of a pass. The paper does not say what its standard of 67 GiB is. Its tables say what adds
/// up to that: weights 15, gradients 15, optimizer state 30, activations 7 with recomputation.
DeclaredCell peak_of_standard() {
  return {"standard",
          "peak",
          "GiB",
          {standard, recomputation.name},
          [](const Record& stays, const Record& stepped) {
            return (held<Kind::parameter>(stays) + held<Kind::optimizer>(stays) + gradients(stays) +
                    activations(stepped)) /
                   gib;
          }};
}

std::vector<DeclaredCell> figure11(const Setting&) {
  return {peak_of_standard(), gib_of(mini_sequence.name, "peak", mini_sequence.name, stage_peak)};
}

/// How many times recomputation and mini-sequences each divide the activations.
std::vector<DeclaredCell> figure3(const Setting&) {
  std::vector<DeclaredCell> cells;
  const auto ratio = [&](const char* column, const char* of, const char* over) {
    cells.push_back({llama3_8b, column, "x", {of, over}, [](const Record& a, const Record& b) {
                       return activations(a) / activations(b);
                     }});
  };
  ratio("vanilla / activation recomputation", stepped_vanilla, recomputation.name);
  ratio("activation recomputation / mini-sequence", recomputation.name, mini_sequence.name);
  for (const MemoryRow& row : memory_rows)
    if (row.gradients == Gradients::stepped)
      cells.push_back(gib_of(row.name, "activation", row.name, activations));
  return cells;
}

void complete_peak(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  if (const Found found = runs.find(declared.cases.front());
      cell.unit == "GiB" && cell.paper && found.record != nullptr)
    cell.note = fmt::format("{}: {}", cell.row, breakdown(found.record->memory.value()));
}

/// One sequence of Llama3-8B on one A100.
Declaration peaks(const char* name, int64_t tokens,
                  std::vector<DeclaredCell> (*cells)(const Setting&)) {
  return {.paper = paper(),
          .name = name,
          .program = papers_program_on_padding,
          .cases = step_memory_cases(papers_machine, steps(tokens)),
          .cells = cells,
          .complete = complete_peak,
          .claims = {claims_of_cells({{.id = "{artifact}/{row}/{column}",
                                       .statement = "{row}: {column} of {paper} {unit}"}})}};
}

}  // namespace

std::vector<const Artifact*> memory_in_peak() {
  static const DeclaredArtifact tables(peaks("tables8-11", 4096, tables8_to_11)),
      eleven(peaks("figure11", 4096, figure11)), three(peaks("figure3", 20000, figure3));
  return {&tables, &eleven, &three};
}

}  // namespace frugal::experiments::mst2024
