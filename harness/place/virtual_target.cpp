#include "harness/place/virtual_target.h"

#include <limits>

#include "harness/place/machine_label.h"

namespace frugal::harness {
namespace {

/// What the target's own name and --hardware say of its machine.
Machine described_machine(const TargetOptions& options) {
  if (options.machine) return *options.machine;
  const std::string named = machine_named(options);
  return find_machine(named.empty() ? papers_machine : named);
}

}  // namespace

VirtualTarget::VirtualTarget(const TargetOptions& options)
    : VirtualTarget(options, described_machine(options)) {}

VirtualTarget::VirtualTarget(const TargetOptions& options, const Machine& machine)
    : Target("virtual:" + label_of(machine), machine, options.deadline) {}

std::string VirtualTarget::device() const { return in_words(*machine()); }

std::unique_ptr<Cluster> VirtualTarget::cluster(const RunConfig& config) const {
  return make_virtual_cluster(config, *machine(), deadline());
}

std::unique_ptr<Cluster> VirtualTarget::cluster_with(const RunConfig& config,
                                                     int64_t memory) const {
  return make_virtual_cluster(config, counterpart(memory), deadline());
}

int64_t VirtualTarget::memory_of_rank(const RunConfig& /*config*/) const {
  return machine()->memory_capacity;
}

Machine VirtualTarget::counterpart(int64_t memory) const {
  Machine other = *machine();
  other.memory_capacity = memory;
  // What has no limit has none on its host either.
  if (memory == std::numeric_limits<int64_t>::max()) other.host_memory = memory;
  return other;
}

}  // namespace frugal::harness
