#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "experiments/mst2024/artifacts.h"
#include "experiments/mst2024/differences.h"
#include "experiments/mst2024/paper.h"
#include "experiments/outcome.h"
#include "kernels/support/error.h"

namespace frugal::mst2024 {
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
std::string case_id(int64_t parts, int64_t tokens) {
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

double peak(const Record& record) {
  return static_cast<double>(record.memory.value().peak_total) / gib;
}

/// Tables 13 to 16: seconds or memory of a module's forward and backward pass, by M and by the
/// sequence's length; weights, their gradients, the input and its gradient are part of the memory.
class ModuleTable final : public Artifact {
 public:
  ModuleTable(std::string name, const Subject& subject, Case::What what)
      : name_(std::move(name)), subject_(subject), what_(what) {}

  std::string id() const override { return fmt::format("{}/{}", paper_id, name_); }
  std::string title() const override { return paper().caption(name_); }

  std::vector<Case> cases(const Selection& selection) const override {
    std::vector<Case> cases;
    for (const Setting& setting : settings(selection))
      for (const int64_t parts : subject_.parts)
        for (const int64_t tokens : lengths_on(setting.on))
          cases.push_back(module_case(parts, tokens, setting));
    return cases;
  }

  std::vector<Cell> cells(const Records& records) const override {
    std::vector<Cell> cells;
    for (const Setting& setting : records.settings(id()))
      for (const int64_t parts : subject_.parts)
        for (const int64_t tokens : lengths_on(setting.on))
          add(cells, parts, tokens, setting, records);
    return cells;
  }

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records))
      if (c.paper && !timed())
        claims.push_back(claim_about(
            c, fmt::format("{}/{}/{}", name_, c.row, c.column),
            fmt::format("{}, {} tokens: {} {}", c.row, c.column, *c.paper, c.unit),
            c.unit == "%" ? 0.5 : 0.01 * *c.paper,
            "bytes are exact on both sides; 1 % for what PyTorch's libraries take besides"));
    return claims;
  }

 private:
  bool timed() const { return what_ == Case::What::module_time; }

  std::vector<Setting> settings(const Selection& selection) const {
    constexpr int64_t on_cpu = 8;
    std::vector<Setting> settings;
    if (selection.virtual_machine)
      settings.push_back({Source::simulated, std::string("virtual:") + papers_machine,
                          selection.scale.value_or(1)});
    if (selection.cpu)
      settings.push_back({Source::measured, "cpu", selection.scale.value_or(on_cpu)});
    if (selection.cuda) settings.push_back({Source::measured, "cuda", selection.scale.value_or(1)});
    return settings;
  }

  std::vector<int64_t> lengths_on(const std::string& on) const {
    const bool few = on == "cpu" || (on == "cuda" && timed());
    return {lengths.begin(), few ? lengths.begin() + lengths_on_small_devices : lengths.end()};
  }

  Case module_case(int64_t parts, int64_t tokens, const Setting& setting) const {
    Case c{.id = case_id(parts, tokens),
           .what = what_,
           .module = subject_.module,
           .config = module_config(subject_, parts, tokens),
           .on = setting.on,
           .scale = setting.scale};
    // bfloat16 is slow where no instruction knows it; float32 has the same products.
    if (setting.on == "cpu" && timed()) c.config.type = DType::f32;
    try {
      c.config.model = c.config.model.scaled(setting.scale);
    } catch (const InputError& error) {
      c.skip = fmt::format("{} at scale {}: {}", c.id, scale_name(setting.scale), error.what());
    }
    return c;
  }

  void add(std::vector<Cell>& cells, int64_t parts, int64_t tokens, const Setting& setting,
           const Records& records) const {
    const Found found = find_case(records, id(), case_id(parts, tokens), setting);
    const Found whole = find_case(records, id(), case_id(1, tokens), setting);
    const auto outcome = [&](const auto& estimate) {
      for (const Found& one : {found, whole})
        if (one.record == nullptr) return Outcome{{}, one.status, one.reason};
      return Outcome{estimate(*found.record, *whole.record)};
    };
    const std::string row = row_name(parts), column = std::to_string(tokens);
    Cell& value = cells.emplace_back(
        make_cell(paper(), name_, row, column, timed() ? "s" : "GiB", setting,
                  outcome([&](const Record& r, const Record& /*whole*/) {
                    return timed() ? median_estimate(module_seconds(r)) : Estimate{peak(r)};
                  })));
    complete(value, found);
    if (parts == 1) return;
    Cell& relative = cells.emplace_back(
        make_cell(paper(), name_, row, column + (timed() ? " / standard" : " saving"),
                  timed() ? "x" : "%", setting, outcome([&](const Record& r, const Record& all) {
                    return timed() ? paired_ratio(module_seconds(r), module_seconds(all))
                                   : Estimate{100 * (1 - peak(r) / peak(all))};
                  })));
    complete(relative, found);
  }

  /// Another size has nothing of the paper's beside it, nor have seconds of another machine; what
  /// has, says what it consists of and why it differs.
  void complete(Cell& cell, const Found& found) const {
    if (cell.scale != 1 || (timed() && cell.source == Source::measured)) {
      cell.paper.reset();
      cell.read.clear();
    }
    if (!cell.paper || found.record == nullptr) return;
    if (!timed())
      cell.note =
          fmt::format("{}, {}: {}", cell.row, cell.column, breakdown(found.record->memory.value()));
    explain(cell);
  }

  std::string name_;
  const Subject& subject_;
  Case::What what_;
};

}  // namespace

std::vector<const Artifact*> modules() {
  static const ModuleTable table13("table13", head, Case::What::module_time);
  static const ModuleTable table14("table14", head, Case::What::module_memory);
  static const ModuleTable table15("table15", mlp, Case::What::module_time);
  static const ModuleTable table16("table16", mlp, Case::What::module_memory);
  return {&table13, &table14, &table15, &table16};
}

}  // namespace frugal::mst2024
