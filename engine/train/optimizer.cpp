#include "engine/train/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/support/error.h"

namespace frugal {

AdamOptimizer::AdamOptimizer(Rank& rank, ParameterList parameters) {
  states_.reserve(parameters.size());
  for (Parameter* p : parameters) {
    const View& w = p->view();
    const DType wide = accumulation_type(w.type);
    State state{p,
                {},
                rank.allocate(wide, w.shape, Kind::optimizer),
                rank.allocate(wide, w.shape, Kind::optimizer)};
    if (wide != w.type) {
      state.master = rank.allocate(wide, w.shape, Kind::optimizer);
      rank.run(Convert{w, state.master});
    }
    rank.run(Fill{state.first, 0});
    rank.run(Fill{state.second, 0});
    states_.push_back(std::move(state));
  }
}

void AdamOptimizer::clear_gradients(Rank& rank) {
  for (const State& state : states_) rank.run(Fill{state.parameter->grad(), 0});
}

double AdamOptimizer::gradient_norm(Rank& rank) {
  const Tensor total = rank.allocate(DType::f64, {1});
  rank.run(Fill{total, 0});
  for (const State& state : states_) {
    const bool counted_elsewhere =
        state.parameter->sharding == Sharding::replicated && rank.tensor_group.rank() != 0;
    if (!counted_elsewhere) rank.run(Sum{state.parameter->grad(), total, true});
  }
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
  for (const State& state : states_)
    if (state.parameter->gradient_is_partial)
      sums.push_back(rank.tensor_group.all_reduce(state.parameter->grad()));
  for (Pending& sum : sums) sum.wait();
}

double AdamOptimizer::step(Rank& rank, const AdamOptions& o) {
  ++steps_;
  sum_partial_gradients(rank);
  const double norm = gradient_norm(rank);
  const double scale = o.clip > 0 && norm > o.clip ? o.clip / norm : 1;
  for (const State& state : states_) {
    rank.run(Adam{.weights = state.parameter->view(),
                  .gradient = state.parameter->grad(),
                  .master = state.master,
                  .first_moment = state.first,
                  .second_moment = state.second,
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
