#include "engine/train/optimizer.h"

// Sums of gradients over ranks that have the same weights.
namespace frugal::engine {

void Optimizer::flatten_gradients(Rank& rank) const {
  if (!rank.config.program.keeps.flattened_gradients) return;
  int64_t elements = 0;
  for (const Group& group : groups_) elements += group.elements;
  const Tensor flat = rank.allocate({elements}, Kind::communication);
  int64_t first = 0;
  for (const Group& group : groups_) {
    rank.run(Convert{group.gradient(), flat.view().sliced(0, first, group.elements)});
    first += group.elements;
  }
}

void Optimizer::sum_narrowed(Rank& rank, Communicator& replicas) {
  for (const Group& group : groups_) {
    const View gradient = group.gradient();
    const Tensor narrow = rank.allocate({group.elements}, Kind::communication);
    rank.run(Convert{gradient, narrow});
    replicas.all_reduce(narrow).wait();
    rank.run(Convert{narrow, gradient});
  }
}

void Optimizer::sum_partial_gradients(Rank& rank) {
  sum_over(rank.groups.context);
  if (rank.tensor_group.size() == 1) return;
  std::vector<Pending> sums;
  for (const Parameter* p : parameters_)
    if (p->gradient_is_partial) sums.push_back(rank.tensor_group.all_reduce(p->grad()));
  for (Pending& sum : sums) sum.wait();
}

void Optimizer::sum_over(Communicator& replicas) {
  if (replicas.size() == 1) return;
  std::vector<Pending> sums;
  for (const Group& group : groups_) sums.push_back(replicas.all_reduce(group.gradient()));
  for (Pending& sum : sums) sum.wait();
}

void Optimizer::complete_gradients(Rank& rank) {
  clear_fresh(rank);
  sum_partial_gradients(rank);
  for (const Group& group : groups_)
    if (group.tied) rank.groups.ends.all_reduce(group.gradient()).wait();
}

}  // namespace frugal::engine
