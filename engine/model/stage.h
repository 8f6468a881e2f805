#pragma once
#include "engine/model/gpt.h"

namespace frugal::engine {

/// The parts of the model that a rank has: one for each chunk of its stage.
class StageModel {
 public:
  explicit StageModel(Rank& rank)
      : StageModel(rank, ModelPart::chunks_of(rank.config, rank.stage())) {}
  StageModel(Rank& rank, const std::vector<ModelPart>& chunks) {
    for (const ModelPart& chunk : chunks)
      parts_.push_back(
          std::make_unique<Gpt>(rank, chunk, parts_.empty() ? nullptr : parts_.front().get()));
  }

  Gpt& part(int chunk) { return *parts_.at(static_cast<size_t>(chunk)); }
  ParameterList parameters() {
    ParameterList all;
    for (const auto& part : parts_) all = join({all, part->parameters()});
    return all;
  }
  /// Lists, for each chunk, what its backward passes complete (Gpt::completed()).
  std::vector<std::vector<ParameterList>> completed() {
    std::vector<std::vector<ParameterList>> all;
    for (const auto& part : parts_) all.push_back(part->completed());
    return all;
  }

 private:
  std::vector<std::unique_ptr<Gpt>> parts_;
};

}  // namespace frugal::engine
