#pragma once
#include "experiments/korthikanti2022/layer_artifact.h"
#include "experiments/step_artifact.h"
#include "harness/target.h"

namespace frugal::korthikanti2022 {

/// A model with its pipeline as the paper runs it: interleaved where table 3 says so.
///
/// It has as many microbatches of the global batch as its memory needs to reach its peak, which is
/// fewer than all: after 2p every stage has had as many in flight as it ever has.
RunConfig step_config(const Model& model, const Technique& technique);

/// On the paper's machine.
class StepArtifact : public frugal::StepArtifact {
 public:
  StepArtifact(std::string name, std::vector<Step> steps)
      : frugal::StepArtifact(paper(), std::move(name), papers_machine, std::move(steps)) {}
};

}  // namespace frugal::korthikanti2022
