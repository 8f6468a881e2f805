#include "experiments/papers.h"

#include "experiments/artifacts.h"
#include "experiments/paper.h"
#include "experiments/policy.h"

namespace frugal::experiments {

Papers all_papers() {
  Papers all{{}, policy::markdown()};
  for (const Artifact* artifact : all_artifacts()) {
    const std::string id = artifact->id().substr(0, artifact->id().find('/'));
    if (all.inventories.empty() || all.inventories.back().paper != id)
      all.inventories.push_back(Paper(id).inventory());
  }
  return all;
}

}  // namespace frugal::experiments
