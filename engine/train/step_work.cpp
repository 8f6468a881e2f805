#include "engine/train/step_work.h"

#include <algorithm>

namespace frugal::engine {
namespace {

double bytes_of(const StepWork& work) { return work.done.total().cost.bytes; }

bool is_more(const StepWork& work, const StepWork& than) {
  return bytes_of(work) > bytes_of(than) ||
         (bytes_of(work) == bytes_of(than) && work.stage < than.stage);
}

/// Bytes of a parameter that passes read: of a table that is looked up, the rows that a microbatch
/// asks for, and none in its backward pass.
double read_by_passes(const Rank& rank, const Parameter& p) {
  const auto bytes = static_cast<double>(p.view().bytes());
  if (!p.looked_up) return 2 * bytes;
  const double tokens = static_cast<double>(rank.config.group_sequence()) *
                        static_cast<double>(rank.config.micro_batch);
  return std::min(bytes, tokens * static_cast<double>(p.view().cols() * size_of(p.view().type)));
}

/// Number of parts of which a rank has one.
double shard_count(const RunConfig& c, Shard what) { return c.shards(what) ? c.shard_ranks() : 1; }

}  // namespace

LeastBytes least_bytes(const Rank& rank, const ParameterList& parameters, const PassesDone& done) {
  const RunConfig& c = rank.config;
  LeastBytes least;
  for (const Parameter* p : parameters) {
    const auto elements = static_cast<double>(p->view().size());
    const double gradient = elements * static_cast<double>(size_of(rank.config.gradient_type()));
    least.weights +=
        done.microbatches * read_by_passes(rank, *p) +
        done.steps * static_cast<double>(p->view().bytes()) / shard_count(c, Shard::weights);
    // The first of a step's passes has nothing to read, and what is summed in a pass none of them;
    // the step reads.
    least.gradients +=
        gradient * (c.reduces_in_backward() ? done.microbatches : 2 * done.microbatches - 1);
    if (done.steps > 0) least.gradients += gradient / shard_count(c, Shard::optimizer);
  }
  least.optimizer = done.steps * 2 *
                    static_cast<double>(rank.ledger.current(Kind::optimizer) +
                                        rank.host.current(Kind::optimizer));
  least.kept = 2 * done.kept;
  least.inputs = done.microbatches * done.inputs;
  return least;
}

StepWork most_work(const std::vector<StepWork>& all) {
  StepWork most = all.front();
  for (const StepWork& work : all)
    if (is_more(work, most)) most = work;
  return most;
}

}  // namespace frugal::engine
