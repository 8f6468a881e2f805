#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/comm/exchange.h"
#include "engine/plan/walk.h"

// How messages hold up the stages of a Walk: as StagedGroup does (engine/comm/staged.h).
namespace frugal::engine {

/// A moment, and when it would be if messages took no time, and if sums and steps took none either.
struct WalkMoments {
  double all = 0, without_messages = 0, of_passes = 0;

  WalkMoments after_step(double seconds) const {
    return {all + seconds, without_messages + seconds, of_passes};
  }
};
/// So much earlier, or later.
inline WalkMoments moved(const WalkMoments& moments, double seconds) {
  return {moments.all + seconds, moments.without_messages + seconds, moments.of_passes + seconds};
}
inline WalkMoments later(const WalkMoments& a, const WalkMoments& b) {
  return {std::max(a.all, b.all), std::max(a.without_messages, b.without_messages),
          std::max(a.of_passes, b.of_passes)};
}

/// What a pass needs, and the message that brings it.
struct WalkInput {
  /// When it is there; of an exchange, `all` is when both ends are ready.
  WalkMoments since;
  bool here = false;      // it is made, and sent where it is a message
  bool awaited = false;   // of an exchange: its receiver is ready
  bool received = false;  // and through

  Crossing crossing(const WalkMessage& message) const {
    return {since.all, message.alone, message.beside};
  }
};

/// What a part makes in one direction: who gets it, by which channel, and when what it needs itself
/// came.
struct WalkWay {
  bool begins = false;   // with nothing that it would wait for
  int to = -1;           // the part, or none
  bool travels = false;  // to another stage
  size_t channel = 0;    // what goes the same way goes one after the other
  size_t stream = 0;     // of the stage's that are held up by messages: a device's for activations
  int from_stage = 0, to_stage = 0;
  WalkMessage message;
  std::span<WalkInput> inputs;  // of each microbatch
};

/// A message that is exchanged, of which the sender is not through yet.
struct WalkSent {
  const WalkWay* way;
  WalkInput* input;

  Crossing crossing() const { return input->crossing(way->message); }
};

struct WalkingStage {
  size_t done = 0;         // actions
  WalkMoments free;        // `all` is the compute stream's, where messages hold up passes
  WalkMoments copies;      // to the host, until then
  std::vector<int> parts;  // of its chunks
  int version = 0;         // that it computed with
  std::vector<WalkMoments> steps;
  bool late = false;  // its last step was without the tied table
  size_t begun = 0;   // steps that are validated later
  // Where messages hold up passes:
  double host = 0;
  std::array<double, 2> streams{};  // for activations, and for gradients
  std::optional<WalkSent> sent;
  std::optional<double> receiving;  // since when it is ready to, while it waits

  void hold_up(double until) {
    free.all = std::max(free.all, until);
    host = std::max(host, until);
  }
  /// The host gives it a pass.
  void give(const PassCost& pass) {
    free.all = std::max(free.all, host + pass.lead);
    host += pass.host;
  }
  /// When the host has begun a message on its stream.
  double issue(size_t stream, double launch) {
    host += launch;
    return std::max(streams[stream], host);
  }
};

/// The messages of a walk, in the order in which stages send and receive them.
class WalkMessages {
 public:
  explicit WalkMessages(const Walk& walk)
      : walk_(walk), holds_up_(walk.messages != Messages::beside), free_(walk.actions.size() * 4) {}

  /// Where messages hold up passes, waits for what a pass needs, which `bringer` brings if it is a
  /// message; whether it is there.
  bool receive(WalkingStage& s, WalkInput* input, const WalkWay* bringer) {
    if (!exchange(s, input, bringer)) return false;
    if (input == nullptr) return true;
    if (!input->here) return false;
    s.free = later(s.free, input->since);
    if (bringer != nullptr) take(s, *input, *bringer);
    return true;
  }
  /// Where messages are exchanged, waits for what was sent and for what is to be received, if there
  /// is such, as Exchange::complete() does; whether both are there. A stage has sent one message at
  /// most since it waited last.
  bool exchange(WalkingStage& s, WalkInput* input, const WalkWay* bringer) {
    return walk_.messages != Messages::exchanged || exchanged(s, input, bringer);
  }
  /// Gives what a pass has made to the part that needs it.
  void send(WalkingStage& s, const WalkWay& way, WalkInput& input) {
    const double ready = input.since.all;  // its receiver, of an exchange
    input.here = true;
    input.since = s.free;
    if (!way.travels) return;
    if (holds_up_) {
      send_held_up(s, way, input, ready);
      return;
    }
    double& channel = free_[way.channel];
    input.since.all = channel = std::max(s.free.all, channel) + way.message.seconds();
  }

  /// Whether anything has happened since it was asked last.
  bool moved() { return std::exchange(moved_, false); }

 private:
  void take(WalkingStage& s, const WalkInput& input, const WalkWay& bringer);
  void send_held_up(WalkingStage& s, const WalkWay& way, WalkInput& input, double ready);
  bool exchanged(WalkingStage& s, WalkInput* input, const WalkWay* bringer);
  /// The same of what is received, and of what is sent to the same neighbour.
  bool received(WalkingStage& s, WalkInput& input, const WalkWay& bringer);
  /// When the sender is through with a message that ends then.
  double end_sending(WalkingStage& s, double end);

  const Walk& walk_;
  const bool holds_up_;
  std::vector<double> free_;  // each channel, from then on
  bool moved_ = false;
};

}  // namespace frugal::engine
