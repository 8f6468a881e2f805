#pragma once
#include "engine/comm/staged.h"
#include "tests/engine/comm/group.h"

namespace frugal::engine {

/// A machine on which a message of `unit` takes 1 s within a node and 2 s between two, and an
/// all-reduce of it by two stages of a node 1.25 s, all without rounding.
inline Machine round_machine() {
  Machine machine = find_machine("a100-selene");
  machine.launch_overhead = 0;
  machine.devices_per_node = 8;
  machine.link_fraction = machine.gather_fraction = machine.network_fraction = 1;
  machine.lone_fraction = machine.message_fraction = 1;
  machine.compute_share = 0;
  machine.link_bandwidth = 1 << 20;
  machine.network_bandwidth = 1 << 19;
  machine.collective_latency = machine.link_latency = 0.25;
  machine.network_latency = 0.75;
  return machine;
}
inline const View unit{nullptr, DType::f32, {1 << 17}};

/// Rules of a device whose messages hold up stages.
inline DeviceRules messages_are(Messages kind) { return {.messages = {.kind = kind}}; }

/// The stages of a pipeline with their groups.
struct Pipeline {
  explicit Pipeline(const Machine& machine, const ParallelSizes& sizes,
                    const DeviceRules& rules = {}, Replicated replicated = Replicated::no,
                    double deadline = 60) {
    for (int stage = 0; stage < sizes.stages; ++stage) {
      owned.push_back(std::make_unique<VirtualDevice>(machine, rules));
      devices.push_back(owned.back().get());
      devices.back()->keep_log(true);
    }
    const auto exchanges = exchanges_of(devices);
    const auto make = [&](const GroupSpec& group) {
      return std::make_unique<StagedGroup>(devices, Topology(sizes), group, exchanges, replicated,
                                           deadline);
    };
    forward = make(group::activations);
    backward = make(group::gradients);
    all = make({.name = "all", .axes = {"stages"}});
    ends = make({.name = "both", .axes = {"stages"}, .ends = true});
  }
  double clock(int stage, Stream stream) const {
    return devices[static_cast<size_t>(stage)]->record(stream).time;
  }
  double clock(int stage, const StreamSpec& stream) const {
    return clock(stage, devices[static_cast<size_t>(stage)]->stream(stream));
  }
  /// Begins of what a stage computed.
  std::vector<double> begins(size_t stage) const {
    std::vector<double> times;
    for (const auto& interval : devices[stage]->log())
      if (interval.stream == "compute") times.push_back(interval.begin);
    return times;
  }

  std::vector<std::unique_ptr<VirtualDevice>> owned;
  std::vector<VirtualDevice*> devices;
  std::unique_ptr<StagedGroup> forward, backward, all, ends;
};

}  // namespace frugal::engine
