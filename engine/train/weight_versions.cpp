#include "engine/train/weight_versions.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace frugal::engine {

WeightVersions::WeightVersions(ParameterList parameters, Tensor block)
    : parameters_(std::move(parameters)) {
  blocks_.emplace(0, std::move(block));
}

void WeightVersions::use(int version) {
  const auto found = blocks_.find(version);
  if (found == blocks_.end())
    throw std::logic_error(fmt::format("version {} of the weights is not there", version));
  const Tensor& block = found->second;
  if (version == used_) return;
  used_ = version;
  for (Parameter* p : parameters_) {
    const View& before = p->weight.view();
    p->weight =
        block.with_view(block.view().sliced(0, p->offset, before.size()).reshaped(before.shape));
  }
}

/// Where a program keeps versions in float32, in as much memory.
Tensor WeightVersions::new_block(Rank& rank, const Tensor& like) {
  const bool wide = rank.config.program.keeps.float32_weight_versions;
  const DType type = wide ? accumulation_type(like.type()) : like.type();
  const Tensor block = rank.allocate(type, like.shape(), Kind::parameter);
  return block.with_view({block.view().data, like.type(), like.shape()});
}

WeightVersions::Step WeightVersions::advance(Rank& rank, bool previous_is_needed) {
  const int version = newest();
  const Tensor from = blocks_.at(version);
  Tensor to = from;
  if (!previous_is_needed) {
    blocks_.erase(version);
    // The block that the parameters look at has become the next version.
    if (used_ == version) used_ = version + 1;
  } else if (!free_.empty()) {
    to = std::move(free_.back());
    free_.pop_back();
  } else {
    to = new_block(rank, from);
  }
  blocks_.emplace(version + 1, to);
  return {from, to};
}

void WeightVersions::go_on_from(Rank& rank, int version, bool previous_is_needed) {
  const Tensor block = blocks_.rbegin()->second;
  blocks_.clear();
  blocks_.emplace(version, block);
  used_ = version;
  if (previous_is_needed) blocks_.emplace(version - 1, new_block(rank, block));
}

Tensor WeightVersions::exchange(Tensor block) {
  Tensor before = std::exchange(blocks_.rbegin()->second, std::move(block));
  if (used_ == newest()) {
    used_ = -1;
    use(newest());
  }
  return before;
}

void WeightVersions::drop(int version) {
  if (version == newest()) return;
  const auto found = blocks_.find(version);
  if (found == blocks_.end()) return;
  free_.push_back(std::move(found->second));
  blocks_.erase(found);
}

}  // namespace frugal::engine
