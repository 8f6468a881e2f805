#include "engine/train/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/support/error.h"

namespace frugal {

namespace {

/// The whole model's norm has a replicated weight once.
bool is_counted(const Rank& rank, const Parameter& p) {
  return !p.is_copy && (p.sharding != Sharding::replicated || rank.tensor_group.rank() == 0);
}

/// `elements` from a tensor's first on: its own, and what follows it in the block.
Tensor from(const Tensor& first, int64_t elements) {
  return first.with_view(View(first.view().data, first.type(), {elements}));
}

}  // namespace

AdamOptimizer::AdamOptimizer(Rank& rank, ParameterList parameters)
    : parameters_(std::move(parameters)) {
  for (size_t begin = 0, end = 0; begin < parameters_.size(); begin = end) {
    const Parameter& first = *parameters_[begin];
    const bool counted = is_counted(rank, first);
    int64_t elements = 0;
    const auto follows = [&](const Parameter& p) {
      return p.offset >= 0 && p.offset == first.offset + ParameterStore::padded(elements) &&
             is_counted(rank, p) == counted;
    };
    do {
      const Parameter& p = *parameters_[end];
      elements = ParameterStore::padded(elements) + p.view().size();
      ++end;
    } while (end < parameters_.size() && follows(*parameters_[end]));
    add(rank, from(first.weight, elements), from(first.gradient, elements), counted);
  }
}

void AdamOptimizer::add(Rank& rank, const Tensor& weights, const Tensor& gradients, bool counted) {
  const DType wide = gradients.type();
  Group group{weights,
              gradients,
              counted,
              {},
              rank.allocate(wide, weights.shape(), Kind::optimizer),
              rank.allocate(wide, weights.shape(), Kind::optimizer)};
  if (wide != weights.type()) {
    group.master = rank.allocate(wide, weights.shape(), Kind::optimizer);
    rank.run(Convert{weights, group.master});
  }
  rank.run(Fill{group.first, 0});
  rank.run(Fill{group.second, 0});
  groups_.push_back(std::move(group));
}

void AdamOptimizer::clear_gradients(Rank& rank) {
  for (const Group& group : groups_) rank.run(Fill{group.gradients, 0});
}

double AdamOptimizer::gradient_norm(Rank& rank) {
  const Tensor total = rank.allocate(DType::f64, {1});
  rank.run(Fill{total, 0});
  for (const Group& group : groups_)
    if (group.counted) rank.run(Sum{group.gradients, total, true});
  if (rank.tensor_group.size() > 1) rank.tensor_group.all_reduce(total).wait();
  if (!rank.device.backed()) return std::numeric_limits<double>::quiet_NaN();
  double squares = 0;
  rank.device.copy_to_host(&squares, total);
  if (rank.tensor_group.whole() && !std::isfinite(squares))
    throw WrongNumbers(fmt::format("the gradient's norm is {} in step {}; lower the learning rate",
                                   std::sqrt(squares), steps_));
  return std::sqrt(squares);
}

void AdamOptimizer::sum_partial_gradients(Rank& rank) {
  if (rank.tensor_group.size() == 1) return;
  std::vector<Pending> sums;
  for (const Parameter* p : parameters_)
    if (p->gradient_is_partial) sums.push_back(rank.tensor_group.all_reduce(p->grad()));
  for (Pending& sum : sums) sum.wait();
}

double AdamOptimizer::step(Rank& rank, const AdamOptions& o) {
  ++steps_;
  sum_partial_gradients(rank);
  const double norm = gradient_norm(rank);
  const double scale = o.clip > 0 && norm > o.clip ? o.clip / norm : 1;
  for (const Group& group : groups_) {
    rank.run(Adam{.weights = group.weights,
                  .gradient = group.gradients,
                  .master = group.master,
                  .first_moment = group.first,
                  .second_moment = group.second,
                  .learning_rate = static_cast<float>(o.learning_rate),
                  .beta1 = static_cast<float>(o.beta1),
                  .beta2 = static_cast<float>(o.beta2),
                  .epsilon = static_cast<float>(o.epsilon),
                  .weight_decay = static_cast<float>(o.weight_decay),
                  .gradient_scale = static_cast<float>(scale),
                  .step = steps_});
  }
  return rank.tensor_group.whole() ? norm : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace frugal
