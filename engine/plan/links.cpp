#include "engine/plan/links.h"

#include "engine/cluster/rank_grid.h"

namespace frugal::engine {

Links::Links(const RunConfig& run, const Machine& machine) {
  const Topology topology = topology_of(run);
  const auto per_node = static_cast<int>(machine.devices_per_node);
  const int last = topology.stages() - 1;
  for (int i = 0; i <= last; ++i) {
    const GroupSpec& sums = run.shards(Shard::optimizer) ? group::shards : group::data;
    replicas.push_back(topology.on_nodes(sums, i, per_node));
    if (i < last)
      next_.push_back(Senders::between(topology, run.program.device, i, i + 1, per_node));
  }
  if (last == 0) return;
  ends = topology.on_nodes(group::ends, 0, per_node);
  around_ = Senders::between(topology, run.program.device, last, 0, per_node);
}

Senders Links::between(int from, int to) const {
  if (to == from + 1) return next_.at(static_cast<size_t>(from));
  if (to == from - 1) return next_.at(static_cast<size_t>(to)).reversed();
  return from > to ? around_ : around_.reversed();
}

MessageCost::MessageCost(const RunConfig& run, const CostModel& times) {
  const bool sharded = run.sequence_parallel;
  const int64_t tokens = run.local_sequence() * run.micro_batch;
  bytes = tokens * run.model.hidden * static_cast<int64_t>(size_of(run.type));
  const int parts = run.program.device.messages.sharded && !sharded ? run.tensor_parallel : 1;
  sent = static_cast<double>(bytes) / parts;
  gather = times.all_gather(times.group(parts), static_cast<double>(bytes));
}

}  // namespace frugal::engine
