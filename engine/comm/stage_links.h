#pragma once
#include "engine/comm/topology.h"
#include "engine/schedule/links.h"
#include "kernels/virtual/device_rules.h"

namespace frugal::engine {

/// Ranks of a node that send at once from a stage to another one (Topology::senders), back, and
/// while messages go both ways; 0 within a node.
struct Senders {
  int there = 0, back = 0, both = 0;

  static Senders between(const Topology& topology, const DeviceRules& rules, int from, int to,
                         int per_node) {
    const int there = topology.senders(from, to, per_node);
    return {there, topology.senders(to, from, per_node),
            rules.messages.shared_ports ? topology.exchanging(from, to, per_node) : there};
  }
  Senders reversed() const { return {back, there, both}; }
};

/// Seconds of a message of which each rank sends so many bytes.
inline LinkCost link_cost(const CostModel& costs, const Senders& senders, double bytes) {
  const bool within = senders.there == 0;
  const double alone =
      within ? costs.message(true, bytes) : costs.message_between_nodes(senders.there, bytes);
  return {.alone = alone,
          .beside = within ? alone : costs.message_between_nodes(senders.both, bytes, Ways::both),
          .buffered = costs.buffered(bytes, alone)};
}

}  // namespace frugal::engine
