#pragma once
#include <vector>

#include "engine/comm/topology.h"
#include "engine/config.h"
#include "kernels/virtual/machine.h"

namespace frugal::engine {

/// How the stages and replicas of a configuration lie on a machine's nodes. It depends on t, c,
/// w and d alone.
struct Links {
  Links(const RunConfig& run, const Machine& machine);

  std::vector<CostModel::Group> replicas;  ///< of each stage
  CostModel::Group ends;
  std::vector<int> senders;     ///< from each stage to the next (Topology::senders)
  std::vector<int> back;        ///< and back
  std::vector<int> exchanging;  ///< the same of exchanges of both directions
  /// From the last stage to the first, as where stages have several chunks, and back.
  int around = 0, around_back = 0;

  /// From a stage to another one that is a neighbour of it, or to the other end.
  int between(int from, int to) const;
};

/// A hidden state on its way between two stages.
struct MessageCost {
  MessageCost(const RunConfig& run, const CostModel& times);

  int64_t bytes = 0;  ///< of the hidden state that a rank has
  double sent = 0;    ///< of them, bytes that a rank sends
  double gather = 0;  ///< seconds in which ranks of a stage put together what each has received

  /// Seconds on its way, where so many leave a node at once (Topology::senders).
  double on_its_way(const CostModel& times, int senders, Ways ways = Ways::one) const;
  /// Seconds with the gather.
  double seconds(const CostModel& times, int senders, Ways ways = Ways::one) const {
    return gather + on_its_way(times, senders, ways);
  }
};

}  // namespace frugal::engine
