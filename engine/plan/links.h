#pragma once
#include <vector>

#include "engine/comm/stage_links.h"
#include "engine/config.h"

namespace frugal::engine {

/// Layout of a configuration's stages and replicas on a machine's nodes. It depends on t, c,
/// w and d alone.
struct Links {
  Links(const RunConfig& run, const Machine& machine);

  std::vector<CostModel::Group> replicas;  ///< of each stage, that sum or divide first
  CostModel::Group ends;

  /// Senders from a stage to another one that is a neighbour of it, or to the other end.
  Senders between(int from, int to) const;

 private:
  std::vector<Senders> next_;  // from each stage to the next
  Senders around_;             // from the last stage to the first
};

/// A hidden state on its way between two stages.
struct MessageCost {
  MessageCost(const RunConfig& run, const CostModel& times);

  int64_t bytes = 0;  ///< of the hidden state that a rank has
  double sent = 0;    ///< of them, bytes that a rank sends
  double gather = 0;  ///< seconds in which ranks of a stage put together what each has received

  LinkCost over(const CostModel& times, const Senders& senders) const {
    LinkCost link = link_cost(times, senders, sent);
    link.gather = gather;
    return link;
  }
};

}  // namespace frugal::engine
