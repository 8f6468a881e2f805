#include "experiments/pipedream2bw2021/paper.h"

#include <algorithm>

namespace frugal::pipedream2bw2021 {

const Paper& paper() {
  static const Paper all(paper_id);
  return all;
}

ModelConfig model(std::string_view name) {
  for (const auto& json : paper().document().at("models"))
    if (json.at("name") == name)
      return {.name = json.at("name"),
              .layers = json.at("layers"),
              .hidden = json.at("hidden"),
              .heads = json.at("attention_heads"),
              .sequence = paper().document().at("setup").at("sequence"),
              .vocabulary = json.at("vocabulary"),
              .causal = json.at("causal")};
  paper().unknown("model", name);
}

Setup setup_of(const std::string& artifact) {
  const auto& json = paper().document().at("artifacts").at(artifact);
  return {model(json.at("model").get<std::string>()), json.at("width"), json.at("depth")};
}

std::vector<PaperCell> cells_of(const std::string& artifact) {
  std::vector<PaperCell> cells;
  std::copy_if(paper().cells().begin(), paper().cells().end(), std::back_inserter(cells),
               [&](const PaperCell& cell) { return cell.artifact == artifact; });
  return cells;
}

int64_t number_in(const std::string& column) {
  return std::stoll(column.substr(column.rfind(' ') + 1));
}

}  // namespace frugal::pipedream2bw2021
