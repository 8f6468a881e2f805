#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "experiments/artifacts.h"
#include "experiments/cases.h"
#include "experiments/declaration.h"
#include "experiments/mst2024/paper.h"

namespace frugal::experiments::mst2024 {
namespace {

/// A module of Llama3-8B alone, in so many mini-sequences at most.
struct Subject {
  Module module;
  std::vector<int64_t> parts;  ///< M; the first is 1
};
const Subject head{Module::output_layer, {1, 2, 4, 8, 16, 32}};
const Subject mlp{Module::mlp, {1, 2, 4, 8, 16}};

/// Tokens of the paper's columns, and between. Times on real devices are those of the first few,
/// because all that are timed are in memory at once.
constexpr std::array<int64_t, 5> lengths{1024, 8192, 20000, 40000, 80000};
constexpr size_t lengths_on_small_devices = 2;

std::string row_name(int64_t parts) { return parts == 1 ? "standard" : fmt::format("M={}", parts); }
std::string module_id(int64_t parts, int64_t tokens) {
  return fmt::format("{}/{}", row_name(parts), tokens);
}

RunConfig module_config(const Subject& subject, int64_t parts, int64_t tokens) {
  RunConfig run = training_config("llama3-8b", vanilla, tokens, Gradients::resident);
  (subject.module == Module::mlp ? run.mlp_chunks : run.head_chunks) = parts;
  return run;
}

/// Of the forward and the backward pass together, in each round.
std::vector<double> module_seconds(const Record& record) {
  std::vector<double> total = record.samples(metric::forward_time);
  const std::vector<double>& backward = record.samples(metric::backward_time);
  std::transform(total.begin(), total.end(), backward.begin(), total.begin(), std::plus<>());
  return total;
}

double peak_gib(const Record& record) {
  return static_cast<double>(record.memory.value().peak_total) / gib;
}

/// One of the four tables.
struct ModuleTable {
  const char* name;
  const Subject& subject;
  bool timed;

  std::vector<int64_t> lengths_on(const std::string& on) const {
    const bool few = on == "cpu" || (on == "cuda" && timed);
    return {lengths.begin(), few ? lengths.begin() + lengths_on_small_devices : lengths.end()};
  }
};

std::vector<Case> module_cases(const ModuleTable& table, const Selection& selection) {
  std::vector<Case> cases;
  for (const Setting& setting : settings_of(selection, papers_machine, 8))
    for (const int64_t parts : table.subject.parts)
      for (const int64_t tokens : table.lengths_on(setting.on)) {
        const std::string id = module_id(parts, tokens);
        Case& c = cases.emplace_back(
            Case{.id = id,
                 .config = module_config(table.subject, parts, tokens),
                 .workload = table.timed ? Workload(workload::ModuleTime{table.subject.module})
                                         : workload::ModuleMemory{table.subject.module},
                 .on = setting.on});
        // bfloat16 is slow where no instruction knows it; float32 has the same products.
        if (setting.on == "cpu" && table.timed) c.config.type = DType::f32;
        scale_down(c, setting.scale, id);
      }
  return cases;
}

std::vector<DeclaredCell> module_cells(const ModuleTable& table, const Setting& setting) {
  const Number seconds = [](const Record& r, const Record& /*whole*/) {
    return exact_median(module_seconds(r));
  };
  const Number times_whole = [](const Record& r, const Record& whole) {
    return exact_ratio(module_seconds(r), module_seconds(whole));
  };
  const Number memory = [](const Record& r, const Record& /*whole*/) { return peak_gib(r); };
  const Number saving = [](const Record& r, const Record& whole) {
    return 100 * (1 - peak_gib(r) / peak_gib(whole));
  };
  std::vector<DeclaredCell> cells;
  for (const int64_t parts : table.subject.parts)
    for (const int64_t tokens : table.lengths_on(setting.on)) {
      const std::vector<std::string> cases{module_id(parts, tokens), module_id(1, tokens)};
      const std::string row = row_name(parts), column = std::to_string(tokens);
      cells.push_back(
          {row, column, table.timed ? "s" : "GiB", cases, table.timed ? seconds : memory});
      if (parts == 1) continue;
      if (table.timed)
        cells.push_back({row, column + " / standard", "x", cases, times_whole});
      else
        cells.push_back({row, column + " saving", "%", cases, saving});
    }
  return cells;
}

/// Seconds of another machine have nothing of the paper's beside them; what has, says what it
/// consists of and why it differs.
void complete_module(Cell& cell, const DeclaredCell& declared, const Runs& runs, bool timed) {
  if (timed && cell.source == Source::measured) beside_nothing(cell);
  const Record* record = runs.find(declared.cases.front()).record;
  if (!cell.paper || record == nullptr) return;
  if (!timed)
    cell.note = fmt::format("{}, {}: {}", cell.row, cell.column, breakdown(record->memory.value()));
}

Claims claims_of_bytes() {
  return claims_of_cells(
      {{.id = "{artifact}/{row}/{column}", .statement = "{row}, {column} tokens: {paper} {unit}"}});
}

Declaration declared(const ModuleTable& table) {
  return {.paper = paper(),
          .name = table.name,
          .program = papers_modules,
          .cases = [table](const Selection& selection) { return module_cases(table, selection); },
          .cells = [table](const Setting& setting) { return module_cells(table, setting); },
          .complete = [timed = table.timed](
                          Cell& cell, const DeclaredCell& one,
                          const Runs& runs) { complete_module(cell, one, runs, timed); },
          .claims = table.timed ? std::vector<Claims>{} : std::vector{claims_of_bytes()}};
}

}  // namespace

/// Tables 13 to 16: seconds or memory of a module's forward and backward pass, by M and by the
/// sequence's length; weights, their gradients, the input and its gradient are part of the memory.
std::vector<const Artifact*> modules() {
  static const DeclaredArtifact table13(declared({"table13", head, true})),
      table14(declared({"table14", head, false})), table15(declared({"table15", mlp, true})),
      table16(declared({"table16", mlp, false}));
  return {&table13, &table14, &table15, &table16};
}

}  // namespace frugal::experiments::mst2024
