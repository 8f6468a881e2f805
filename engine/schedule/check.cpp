#include "engine/schedule/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/schedule/dependencies.h"
#include "engine/schedule/peaks.h"
#include "engine/schedule/schedules.h"
#include "engine/schedule/text.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Places of a stage's actions in its list. Built of actions whose microbatches and chunks are in
/// range.
class ActionIndex {
 public:
  ActionIndex(const Schedule& schedule, int stage)
      : first_(schedule.first_microbatch()),
        microbatches_(schedule.end_microbatch() - first_),
        chunks_(schedule.chunks),
        positions_(slot(ActionKind::step, first_, 0), -1) {
    const Actions& actions = schedule.actions[stage];
    for (int i = static_cast<int>(actions.size()) - 1; i >= 0; --i)
      if (actions[i].kind != ActionKind::step)
        positions_[slot(actions[i].kind, actions[i].microbatch, actions[i].chunk)] = i;
  }

  /// −1 where there is none. Of several the first.
  int find(ActionKind kind, int microbatch, int chunk) const {
    return positions_[slot(kind, microbatch, chunk)];
  }
  /// True if there is any part of a backward pass in two.
  bool is_split(int microbatch, int chunk) const {
    return find(ActionKind::input_backward, microbatch, chunk) >= 0 ||
           find(ActionKind::weight_backward, microbatch, chunk) >= 0;
  }

 private:
  int slot(ActionKind kind, int microbatch, int chunk) const {
    return ((static_cast<int>(kind) * microbatches_) + microbatch - first_) * chunks_ + chunk;
  }

  int first_, microbatches_, chunks_;
  std::vector<int> positions_;
};

/// An order that must hold within a stage between actions of the same microbatch and chunk.
struct Rule {
  ActionKind first, second;
  std::string_view reason;
};
constexpr Rule order_rules[] = {
    {ActionKind::forward, ActionKind::backward, "its forward does not precede it"},
    {ActionKind::forward, ActionKind::input_backward, "its forward does not precede it"},
    {ActionKind::input_backward, ActionKind::weight_backward,
     "its input backward does not precede it"},
    {ActionKind::receive_activation, ActionKind::forward,
     "its activation is not received before it"},
    {ActionKind::receive_gradient, ActionKind::backward, "its gradient is not received before it"},
    {ActionKind::receive_gradient, ActionKind::input_backward,
     "its gradient is not received before it"},
    {ActionKind::forward, ActionKind::send_activation, "what it sends is not computed before it"},
    {ActionKind::backward, ActionKind::send_gradient, "what it sends is not computed before it"},
    {ActionKind::input_backward, ActionKind::send_gradient,
     "what it sends is not computed before it"},
};

/// Reason why an action by itself is wrong; empty where it is not.
std::string meaningless(const Schedule& schedule, int stage, const Action& action) {
  if (action.chunk < 0 || action.chunk >= schedule.chunks)
    return fmt::format("there is no chunk {}; chunks are 0 to {}", action.chunk,
                       schedule.chunks - 1);
  if (action.kind == ActionKind::step)
    return action.microbatch == -1 ? "" : "a step has no microbatch";
  const int first = schedule.first_microbatch(), end = schedule.end_microbatch();
  if (action.microbatch < first || action.microbatch >= end)
    return fmt::format("there is no microbatch {}; these batches' are {} to {}", action.microbatch,
                       first, end - 1);
  if (!is_message(action.kind)) return "";
  if (action.version != -1) return "a message has no version";
  const auto peer = peer_of(schedule.layout(), stage, action);
  if (!peer) return "the model ends here; there is no stage at the other end of this message";
  if (peer->stage == stage) return "the next part is on the same stage; nothing is to be sent";
  return "";
}

/// Every kind of action that a microbatch's way through a chunk of this stage must have.
std::vector<ActionKind> needed(const Schedule& schedule, int stage, int chunk, bool split) {
  std::vector<ActionKind> kinds = {ActionKind::forward};
  if (split)
    kinds.insert(kinds.end(), {ActionKind::input_backward, ActionKind::weight_backward});
  else
    kinds.push_back(ActionKind::backward);
  const auto goes_on = [&](bool ahead) {
    return elsewhere(schedule.layout(), {stage, chunk}, ahead).has_value();
  };
  if (goes_on(false))
    kinds.insert(kinds.end(), {ActionKind::receive_activation, ActionKind::send_gradient});
  if (goes_on(true))
    kinds.insert(kinds.end(), {ActionKind::send_activation, ActionKind::receive_gradient});
  return kinds;
}

/// Reason why two actions are not made together as is said; empty where they are. Of two
/// microbatches neither pass waits for the other.
std::string not_together(const Action& first, const Action* second) {
  if (first.kind != ActionKind::forward)
    return "what is made together with what follows is a forward pass";
  if (second == nullptr || !is_pass(second->kind) || second->kind == ActionKind::forward)
    return "a backward pass must follow it, which is made together with it";
  if (second->beside_next) return "two passes are made together, not three";
  if (second->microbatch == first.microbatch)
    return "the pass that is made together with it is of the same microbatch, and needs what it "
           "makes";
  if (second->version != first.version)
    return fmt::format(
        "the pass that is made together with it uses version {}; a stage computes with one version "
        "at a time",
        second->version);
  return "";
}

/// Reason why a pass uses the wrong version when `newest` is the last one made; empty where it is
/// right. `rule`: the one that the kind of schedule says.
std::string wrong_version(const Schedule& schedule, int stage, const Action& pass,
                          const Action& forward, int newest, int rule) {
  if (pass.version != forward.version)
    return fmt::format("its forward used version {}", forward.version);
  if (pass.version > newest)
    return fmt::format("version {} is not made yet; the newest is {}", pass.version, newest);
  const int kept = schedule.kind.versions_limit(schedule.fill(stage));
  if (pass.version <= newest - kept)
    return fmt::format("version {} is gone: {} versions are kept here and the newest is {}",
                       pass.version, kept, newest);
  if (pass.version != rule)
    return fmt::format("{} uses version {} here", name_of(schedule.kind), rule);
  return "";
}

/// The checker's parts. Each relies on those before it having found nothing.
class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule) {}

  Findings run(int capacity) {
    for (const auto part :
         {&Checker::check_contents, &Checker::check_order, &Checker::check_channels}) {
      (this->*part)();
      if (!findings_.empty()) return findings_;
    }
    check_deadlock(capacity);
    check_versions();
    check_peaks();
    return findings_;
  }

 private:
  /// Notes a finding; none where the reason is empty.
  void find(int stage, int action, std::string reason) {
    if (!reason.empty())
      findings_.push_back({stage, action, text(actions(stage)[action]), std::move(reason)});
  }
  /// Notes a finding of a stage as a whole; −1: of the schedule.
  void find(int stage, std::string reason) {
    findings_.push_back({stage, -1, "", std::move(reason)});
  }
  const Actions& actions(int stage) const { return schedule_.actions[stage]; }
  std::string text(const Action& action) const { return to_text(action, schedule_.chunks); }
  /// Calls `visit` with each action of a stage and its place in the list.
  template <class Visit>
  void each(int stage, const Visit& visit) const {
    for (int i = 0; i < static_cast<int>(actions(stage).size()); ++i) visit(i, actions(stage)[i]);
  }

  /// Each action means something, and each that must be there is, once.
  void check_contents() {
    if (static_cast<int>(schedule_.actions.size()) != schedule_.stages)
      return find(-1, fmt::format("there are actions of {} stages; there are {} stages",
                                  schedule_.actions.size(), schedule_.stages));
    for (int stage = 0; stage < schedule_.stages; ++stage)
      each(stage, [&](int i, const Action& action) {
        find(stage, i, meaningless(schedule_, stage, action));
      });
    if (!findings_.empty()) return;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const ActionIndex index(schedule_, stage);
      check_repeated(stage, index);
      check_missing(stage, index);
    }
  }
  void check_repeated(int stage, const ActionIndex& index) {
    int steps = 0;
    each(stage, [&](int i, const Action& action) {
      if (action.kind == ActionKind::step) {
        if (++steps > schedule_.batches) find(stage, i, "there is one step for each batch only");
        return;
      }
      const int first = index.find(action.kind, action.microbatch, action.chunk);
      if (first != i) find(stage, i, fmt::format("it was done before, as action {}", first));
      if (action.kind == ActionKind::backward && index.is_split(action.microbatch, action.chunk))
        find(stage, i, "this backward is done in two parts, too");
    });
    if (steps < schedule_.batches)
      find(stage, fmt::format("it has {} steps; it needs one for each of {} batches", steps,
                              schedule_.batches));
  }
  void check_missing(int stage, const ActionIndex& index) {
    for (int k = schedule_.first_microbatch(); k < schedule_.end_microbatch(); ++k)
      for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
        if (findings_.size() >= most_findings) return;
        for (const ActionKind kind : needed(schedule_, stage, chunk, index.is_split(k, chunk))) {
          if (index.find(kind, k, chunk) >= 0) continue;
          const std::string absent = text({.kind = kind, .chunk = chunk, .microbatch = k});
          findings_.push_back({stage, -1, absent.substr(0, absent.find('@')),  // it has no version
                               "it is missing; it must be there once"});
        }
      }
  }

  /// Order within each stage.
  void check_order() {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const ActionIndex index(schedule_, stage);
      check_rules(stage, index);
      check_parts(stage, index);
      check_steps(stage);
      each(stage, [&](int i, const Action& action) {
        const bool last = i + 1 == static_cast<int>(actions(stage).size());
        if (action.beside_next) find(stage, i, not_together(action, last ? nullptr : &action + 1));
      });
    }
  }
  void check_rules(int stage, const ActionIndex& index) {
    each(stage, [&](int i, const Action& action) {
      for (const Rule& rule : order_rules)
        if (action.kind == rule.second &&
            index.find(rule.first, action.microbatch, action.chunk) > i)
          find(stage, i, std::string(rule.reason));
    });
  }
  /// Parts of one stage that follow each other do so without a message.
  void check_parts(int stage, const ActionIndex& index) {
    const auto made = [&](bool forward, int microbatch, int chunk) {
      if (forward) return index.find(ActionKind::forward, microbatch, chunk);
      return std::max(index.find(ActionKind::backward, microbatch, chunk),
                      index.find(ActionKind::input_backward, microbatch, chunk));
    };
    each(stage, [&](int i, const Action& action) {
      if (!is_pass(action.kind) || action.kind == ActionKind::weight_backward) return;
      const bool forward = action.kind == ActionKind::forward;
      const auto before = schedule_.layout().neighbour({stage, action.chunk}, !forward);
      if (before && before->stage == stage && made(forward, action.microbatch, before->chunk) > i)
        find(stage, i, fmt::format("chunk {}, which it needs, comes later", before->chunk));
    });
  }
  /// The i-th step comes after the last pass of the i-th batch.
  void check_steps(int stage) {
    std::vector<int> last(schedule_.batches, -1);
    each(stage, [&](int i, const Action& action) {
      if (is_pass(action.kind))
        last[schedule_.batch_of(action.microbatch) - schedule_.first_batch] = i;
    });
    auto of_batch = last.begin();
    each(stage, [&](int i, const Action& action) {
      if (action.kind != ActionKind::step) return;
      const int pass = *of_batch++;
      if (pass > i)
        find(stage, i,
             fmt::format("{} of its batch comes after it, as action {}", text(actions(stage)[pass]),
                         pass));
    });
  }

  /// Each channel's messages are received in the order in which they were sent.
  void check_channels() {
    // By sender, receiver and what is carried: what was sent, as its receiver names it.
    std::map<std::tuple<int, int, ActionKind>, Actions> sent;
    for (int stage = 0; stage < schedule_.stages; ++stage)
      for (const Action& action : actions(stage)) {
        if (!is_send(action.kind)) continue;
        const ActionKind receive = receive_of(action.kind);
        const Seat peer = *peer_of(schedule_.layout(), stage, action);
        sent[{stage, peer.stage, receive}].push_back(
            {.kind = receive, .chunk = peer.chunk, .microbatch = action.microbatch});
      }
    std::map<std::tuple<int, int, ActionKind>, size_t> received;
    for (int stage = 0; stage < schedule_.stages; ++stage)
      each(stage, [&](int i, const Action& action) {
        if (!is_message(action.kind) || is_send(action.kind)) return;
        const int sender = peer_of(schedule_.layout(), stage, action)->stage;
        const std::tuple channel = {sender, stage, action.kind};
        const Action& arrives = sent.at(channel).at(received[channel]++);
        if (arrives != action)
          find(stage, i,
               fmt::format("stage {} sends {} at its turn; messages are received in the order in "
                           "which they were sent",
                           sender, text(arrives)));
      });
  }

  void check_deadlock(int capacity) {
    const Dependencies dependencies(schedule_, capacity);
    const std::vector<int> cycle = dependencies.cycle();
    if (cycle.empty()) return;
    std::string circle = fmt::format("waits for itself, with channels of {} messages: ", capacity);
    for (const int node : cycle) {
      const int stage = dependencies.stage_of(node), action = dependencies.action_of(node);
      circle += fmt::format("{} (stage {}, action {}) waits for ", text(actions(stage)[action]),
                            stage, action);
    }
    find(dependencies.stage_of(cycle[0]), dependencies.action_of(cycle[0]), circle + "the first");
  }

  void check_versions() {
    Schedule by_rule = schedule_;
    assign_versions(by_rule);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const ActionIndex index(schedule_, stage);
      int newest = schedule_.first_batch;
      each(stage, [&](int i, const Action& action) {
        if (action.kind == ActionKind::step && action.version != ++newest)
          find(stage, i, fmt::format("this step makes version {}", newest));
        if (!is_pass(action.kind)) return;
        const int forward = index.find(ActionKind::forward, action.microbatch, action.chunk);
        find(stage, i,
             wrong_version(schedule_, stage, action, actions(stage)[forward], newest,
                           by_rule.actions[stage][i].version));
      });
    }
  }

  void check_peaks() {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto hold = [&](std::string_view what, int peak, int limit) {
        if (peak > limit)
          find(stage, fmt::format("it holds up to {} {} at once; {} allows it {}", peak, what,
                                  name_of(schedule_.kind), limit));
      };
      hold(schedule_.chunks == 1 ? "microbatches" : "microbatches times chunks",
           peak_in_flight(actions(stage)), schedule_.kind.in_flight(schedule_.fill(stage)));
      hold("versions of its weights", peak_versions(actions(stage), schedule_.first_batch),
           schedule_.kind.versions_limit(schedule_.fill(stage)));
    }
  }

  const Schedule& schedule_;
  Findings findings_;
};

}  // namespace

std::string Finding::describe() const {
  if (stage < 0) return reason;
  if (action < 0 && text.empty()) return fmt::format("stage {}: {}", stage, reason);
  if (action < 0) return fmt::format("stage {}, {}: {}", stage, text, reason);
  return fmt::format("stage {}, action {} ({}): {}", stage, action, text, reason);
}

Findings check(const Schedule& schedule, int capacity) {
  ScheduleShape{.stages = schedule.stages,
                .chunks = schedule.chunks,
                .microbatches = schedule.microbatches,
                .first_batch = schedule.first_batch,
                .batches = schedule.batches}
      .validate(schedule.kind);
  if (capacity < 0)
    throw InputError(fmt::format("the channels' capacity is {}; it must be at least 0", capacity));
  return Checker(schedule).run(capacity);
}

void require_valid(const Schedule& schedule, const std::string& name, int capacity) {
  const Findings findings = check(schedule, capacity);
  if (findings.empty()) return;
  const std::string more = findings.size() == 1
                               ? ""
                               : fmt::format(" (and {} more{})", findings.size() - 1,
                                             findings.size() < most_findings ? "" : " at least");
  throw InputError(fmt::format("{}: {}{}", name, findings.front().describe(), more));
}

}  // namespace frugal::engine
