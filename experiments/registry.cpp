#include "experiments/artifacts.h"

namespace frugal::experiments {

std::vector<const Artifact*> all_artifacts() {
  std::vector<const Artifact*> all;
#define FRUGAL_ONE(paper, name) all.push_back(&paper::name());
#define FRUGAL_SEVERAL(paper, name) \
  for (const Artifact* one : paper::name()) all.push_back(one);
  FRUGAL_ARTIFACTS(FRUGAL_ONE, FRUGAL_SEVERAL)
  return all;
}

}  // namespace frugal::experiments
