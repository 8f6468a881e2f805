#pragma once
#include <utility>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// What `make` constructs on a rank, a model by pointer, with all its weights in one block of
/// memory, which comes with it. `make` is called twice: first only to know how large they are
/// together.
template <class Make>
auto in_one_block(Rank& rank, const Make& make) {
  rank.parameters.count(types_of(rank.config));
  (void)make();
  Tensor block = rank.parameters.reserve(rank.ledger, types_of(rank.config));
  rank.run(Fill{block, 0});
  if (const Tensor& gradients = rank.parameters.gradient_block(); !gradients.empty())
    rank.run(Fill{gradients, 0});
  auto model = make();
  rank.parameters.close();
  return std::pair{std::move(model), std::move(block)};
}

}  // namespace frugal::engine
