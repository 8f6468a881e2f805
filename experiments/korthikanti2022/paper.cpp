#include "experiments/korthikanti2022/paper.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/support/embedded.h"
#include "kernels/support/json_file.h"

namespace frugal::korthikanti2022 {
namespace {

const nlohmann::json& document() {
  static const nlohmann::json json = [] {
    const std::string path = "experiments/korthikanti2022/paper.json";
    return parse_json(embedded_file(path).value(), path);
  }();
  return json;
}

Model read_model(const nlohmann::json& json) {
  const auto& setup = document().at("setup");
  return {.config = {.name = json.at("name"),
                     .layers = json.at("layers"),
                     .hidden = json.at("hidden"),
                     .heads = json.at("attention_heads"),
                     .sequence = setup.at("sequence"),
                     .vocabulary = setup.at("vocabulary")},
          .tensor_parallel = json.at("tensor_parallel"),
          .pipeline_parallel = json.at("pipeline_parallel"),
          .interleave = json.at("interleave_m"),
          .gpus = json.at("gpus"),
          .micro_batch = json.at("micro_batch"),
          .global_batch = json.at("global_batch")};
}

std::vector<PaperCell> read_cells() {
  std::vector<PaperCell> cells;
  for (const auto& [artifact, content] : document().at("artifacts").items())
    for (const auto& json : content.value("cells", nlohmann::json::array()))
      cells.push_back({.artifact = artifact,
                       .row = json.at("row"),
                       .column = json.at("column"),
                       .value = json.at("value"),
                       .unit = json.at("unit"),
                       .read = json.at("read"),
                       .uncertainty = json.value("uncertainty", 0.0)});
  return cells;
}

template <class T, class Read>
std::vector<T> read_all(const char* key, const Read& read) {
  std::vector<T> all;
  for (const auto& json : document().at(key)) all.push_back(read(json));
  return all;
}

[[noreturn]] void unknown(const std::string& what, std::string_view name) {
  throw std::out_of_range("paper.json of korthikanti2022 has no " + what + " " + std::string(name));
}

}  // namespace

const std::vector<Model>& models() {
  static const auto all = read_all<Model>("models", read_model);
  return all;
}

const Model& model(std::string_view name) {
  for (const Model& m : models())
    if (m.config.name == name) return m;
  unknown("model", name);
}

const std::vector<PaperCell>& paper_cells() {
  static const std::vector<PaperCell> cells = read_cells();
  return cells;
}

const PaperCell* find_paper_cell(std::string_view artifact, std::string_view row,
                                 std::string_view column) {
  const auto& cells = paper_cells();
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const PaperCell& c) {
    return c.artifact == artifact && c.row == row && c.column == column;
  });
  return found == cells.end() ? nullptr : &*found;
}

const PaperCell& paper_cell(std::string_view artifact, std::string_view row,
                            std::string_view column) {
  if (const PaperCell* found = find_paper_cell(artifact, row, column)) return *found;
  unknown("cell", std::string(artifact) + " / " + std::string(row) + " / " + std::string(column));
}

std::string caption(const std::string& artifact) {
  return document().at("artifacts").at(artifact).at("caption");
}

const Statement& statement(std::string_view id) {
  static const auto all = read_all<Statement>("statements", [](const nlohmann::json& json) {
    Statement s{json.at("id"), json.at("where"), json.at("says"), std::nullopt};
    if (json.contains("value")) s.value = json.at("value").get<double>();
    return s;
  });
  for (const Statement& s : all)
    if (s.id == id) return s;
  unknown("statement", id);
}

const std::vector<std::string>& contradictions() {
  static const auto all = read_all<std::string>(
      "contradictions", [](const nlohmann::json& json) { return json.get<std::string>(); });
  return all;
}

double peak_flops_per_gpu() { return document().at("setup").at("peak_flops_per_gpu"); }

}  // namespace frugal::korthikanti2022
