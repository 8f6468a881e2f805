#pragma once
#include <vector>

#include "experiments/namespace.h"
#include "harness/measure/artifact.h"

/// Every artifact, in the order in which they are listed: ARTIFACT(paper, function) is one,
/// ARTIFACTS(paper, function) are several that differ in their names. A file of the paper's folder
/// defines the function.
#define FRUGAL_ARTIFACTS(ARTIFACT, ARTIFACTS) \
  ARTIFACT(korthikanti2022, table2)           \
  ARTIFACT(korthikanti2022, parts_of_a_layer) \
  ARTIFACT(korthikanti2022, figure7)          \
  ARTIFACT(korthikanti2022, table4)           \
  ARTIFACT(korthikanti2022, section5)         \
  ARTIFACT(korthikanti2022, outside)          \
  ARTIFACT(korthikanti2022, table5)           \
  ARTIFACT(korthikanti2022, figure8)          \
  ARTIFACT(korthikanti2022, data_parallel)    \
  ARTIFACT(korthikanti2022, figure1)          \
  ARTIFACT(korthikanti2022, figure9)          \
  ARTIFACT(korthikanti2022, appendix_b)       \
  ARTIFACT(korthikanti2022, appendix_c)       \
  ARTIFACTS(pipedream2bw2021, timelines)      \
  ARTIFACTS(pipedream2bw2021, throughputs)    \
  ARTIFACTS(pipedream2bw2021, footprints)     \
  ARTIFACT(pipedream2bw2021, figure8)         \
  ARTIFACT(pipedream2bw2021, figure9)         \
  ARTIFACT(pipedream2bw2021, figure12)        \
  ARTIFACT(pipedream2bw2021, planner)         \
  ARTIFACTS(mst2024, longest_sequences)       \
  ARTIFACTS(mst2024, anchors)                 \
  ARTIFACT(mst2024, table6)                   \
  ARTIFACTS(mst2024, memory_in_peak)          \
  ARTIFACTS(mst2024, modules)

#define FRUGAL_ONE(paper, name)          \
  namespace frugal::experiments::paper { \
  const Artifact& name();                \
  }
#define FRUGAL_SEVERAL(paper, name)      \
  namespace frugal::experiments::paper { \
  std::vector<const Artifact*> name();   \
  }
FRUGAL_ARTIFACTS(FRUGAL_ONE, FRUGAL_SEVERAL)
#undef FRUGAL_ONE
#undef FRUGAL_SEVERAL

namespace frugal::experiments {

/// Every artifact, in the order in which they are listed.
std::vector<const Artifact*> all_artifacts();

}  // namespace frugal::experiments
