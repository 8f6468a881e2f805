#include "experiments/pipedream2bw2021/paper.h"

#include "harness/settings/models.h"

namespace frugal::experiments::pipedream2bw2021 {

const Paper& paper() {
  static const Paper all(paper_id);
  return all;
}

Setup setup_of(const std::string& artifact) {
  const JsonObject setup = paper().artifact(artifact);
  return {find_model(setup.require<std::string>("model")),
          static_cast<int>(setup.require<int64_t>("width")),
          static_cast<int>(setup.require<int64_t>("depth"))};
}

std::vector<PaperCell> cells_of(const std::string& artifact) { return paper().cells_of(artifact); }

int64_t number_in(const std::string& column) {
  return std::stoll(column.substr(column.rfind(' ') + 1));
}

}  // namespace frugal::experiments::pipedream2bw2021
