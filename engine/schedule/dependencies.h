#pragma once

#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// The action that receives what this kind of send sends.
ActionKind receive_of(ActionKind send);

/// Actions of all stages that must be over before each, when messages travel as follows.
///
/// A stage makes its passes and steps one after another, in the order of its list. A receive holds
/// them up until its message is there. A send does not: it is handed to a stream of the stage and
/// goes on by itself; but the next one to the same side holds them up until it is over. All stages
/// meet in the steps that make the same version (Optimizer::step). Each stage has two such streams,
/// one for activations and one for gradients, and each does its messages, sends and receives alike,
/// in the order in which they were issued: a receive behind a send waits until that send is over.
/// Only where stages have several chunks, and so form a ring or a V, receives have streams of their
/// own, and so has what is sent the other way than the first chunk's.
/// Between two stages and for each direction there is a channel that holds up to `capacity`
/// messages; a send is over when its message is in it. With capacity 0 (rendezvous) a send is over
/// when its message is received.
class Dependencies {
 public:
  /// The n-th message sent into a channel is the n-th received from it: the messages match
  /// (check.h).
  Dependencies(const Schedule& schedule, int capacity);

  /// Actions of all stages are numbered through, stage after stage.
  int size() const { return static_cast<int>(before_.size()); }
  int node(int stage, int action) const { return offsets_[stage] + action; }
  int stage_of(int node) const;
  int action_of(int node) const { return node - offsets_[stage_of(node)]; }

  /// Actions that must be over before this one is.
  const std::vector<int>& before(int node) const { return before_[node]; }
  /// The send of a receive's message, or the receive of a send's.
  int other_end(int message) const { return other_end_[message]; }

  /// All actions, each after those that must be over before it; fewer where they wait in a circle.
  std::vector<int> order() const;
  /// Actions of which each waits for the next and the last for the first; empty where there are
  /// none.
  std::vector<int> cycle() const;

 private:
  void order_stage(const Schedule& schedule, int stage);
  void meet_in_steps(const Schedule& schedule);
  void match_messages(const Schedule& schedule, int capacity);

  std::vector<int> offsets_;  ///< of each stage's first action
  std::vector<std::vector<int>> before_;
  std::vector<int> other_end_;
};

}  // namespace frugal::engine
