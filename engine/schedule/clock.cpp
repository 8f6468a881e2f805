#include "engine/schedule/clock.h"

#include <algorithm>
#include <span>
#include <utility>

namespace frugal::engine {
namespace {

Moments later(const Moments& a, const Moments& b) {
  return {std::max(a.all, b.all), std::max(a.without_messages, b.without_messages),
          std::max(a.of_passes, b.of_passes)};
}

/// Input of a pass: what the part before it made, or behind it of a gradient.
struct Input {
  Moments since;          // when it is there; of an exchange, `all` is when both ends are ready
  bool here = false;      // made, and sent where it is a message
  bool awaited = false;   // of an exchange: the receiver is ready
  bool received = false;  // of an exchange: the receiver is through with it
};

/// Outgoing of a part in one direction: its receiver and channel, and the part's own inputs.
struct Outgoing {
  bool begins = false;   // an end of the model: passes need no input
  int to = -1;           // receiving part, or none
  bool travels = false;  // to another stage
  size_t channel = 0;    // messages of a channel travel one after another
  size_t stream = 0;  // of messages that hold up stages: a device's for activations, or gradients
  int from_stage = 0, to_stage = 0;
  LinkCost cost;
  std::span<Input> inputs;  // of each microbatch

  Crossing crossing(const Input& input) const { return {input.since.all, cost}; }
};

/// A message that is exchanged, until its sender is through with it.
struct Sent {
  const Outgoing* output;
  Input* input;

  Crossing crossing() const { return output->crossing(*input); }
};

struct StageState {
  size_t done = 0;              // actions
  Moments free;                 // end of the last action; `all` is the compute stream's
  Moments copies;               // end of copies to the host
  Moments sums;                 // end of sums that backward passes have begun
  double delayed = 0;           // seconds for which these have delayed the last pass
  double slowed = 0;            // by all of that, in a batch
  std::vector<int> completing;  // passes of each chunk in this batch that complete gradients
  std::vector<int> parts;       // of its chunks
  int version = 0;              // of the weights it computed with last
  std::vector<Moments> steps;
  bool late_table = false;  // its last step was without the tied table
  size_t begun = 0;         // steps that are validated later
  // Of messages that hold up passes:
  double host = 0;
  std::array<double, 2> streams{};  // for activations, and for gradients
  std::optional<Sent> sent;
  std::optional<double> receiving;  // the moment since which it waits, ready to receive

  void slow(double seconds) {
    free = free.after_step(seconds);
    slowed += seconds;
  }
  void hold_up(double until) {
    free.all = std::max(free.all, until);
    host = std::max(host, until);
  }
  /// Moment at which the host has begun a message on the stream.
  double issue(size_t stream, double launch) {
    host += launch;
    return std::max(streams[stream], host);
  }
};

/// Messages between stages, in the order in which stages send and receive them.
class Mail {
 public:
  Mail(const ClockCosts& costs, size_t stages)
      : costs_(costs), exchanged_(costs.messages == Messages::exchanged), free_(stages * 4) {}

  bool holds_up() const { return costs_.messages != Messages::beside; }
  bool moved() { return std::exchange(moved_, false); }

  /// Waits for the input of a pass, which `bringer` brings if it is a message. Returns whether it
  /// is there.
  bool receive(StageState& s, Input* input, const Outgoing* bringer) {
    if (!exchange(s, input, bringer)) return false;
    if (input == nullptr) return true;
    if (!input->here) return false;
    if (!holds_up() && bringer != nullptr && costs_.synchronised) s.free.all += costs_.launch;
    s.free = later(s.free, input->since);
    if (bringer != nullptr && holds_up()) take(s, *input, *bringer);
    return true;
  }
  /// Waits for the message that was sent and for the one to be received, as Exchange::complete()
  /// does, if messages are exchanged. Returns true once both are there. A stage has sent one
  /// message at most since it waited last.
  bool exchange(StageState& s, Input* input, const Outgoing* bringer) {
    return !exchanged_ || complete(s, input, bringer);
  }
  /// Gives what a pass has made to the part that needs it. Returns when a message beside passes
  /// sets out.
  double send(StageState& s, const Outgoing& output, Input& input) {
    const double ready = input.since.all;  // of an exchange: its receiver
    input.here = true;
    input.since = s.free;
    if (!output.travels) return s.free.all;
    if (holds_up()) return send_held_up(s, output, input, ready);
    if (costs_.synchronised) input.since.all = s.free.all += costs_.launch;
    double& channel = free_[output.channel];
    const double begin = std::max(s.free.all, channel);
    input.since.all = channel = begin + output.cost.seconds();
    return begin;
  }

 private:
  void take(StageState& s, const Input& input, const Outgoing& bringer) {
    if (costs_.messages == Messages::blocking) {
      (void)s.issue(bringer.stream, costs_.launch);
      s.hold_up(input.since.all);
    }
    if (bringer.cost.gather > 0) {
      s.host += costs_.launch;
      s.free.all = std::max(s.free.all, s.host) + bringer.cost.gather;
    }
  }

  bool complete(StageState& s, Input* input, const Outgoing* bringer) {
    const bool receives = bringer != nullptr && !input->received;
    const bool together = receives && s.sent && s.sent->output->to_stage == bringer->from_stage;
    if (receives && !s.receiving)
      s.receiving = std::max(s.issue(bringer->stream, costs_.launch), s.free.all);
    if (s.sent && !together) {
      if (!s.sent->input->awaited) return false;
      const double over = end_sending(s, s.sent->crossing().end());
      if (receives) s.receiving = std::max(*s.receiving, over);
    }
    return !receives || received(s, *input, *bringer);
  }

  /// Receives, and ends what was sent to the same neighbour.
  bool received(StageState& s, Input& input, const Outgoing& bringer) {
    if (!input.awaited) {
      input.awaited = true;
      input.since.all = std::max(input.since.all, *s.receiving);
      moved_ = true;
    }
    if (!input.here || (s.sent && !s.sent->input->awaited)) return false;
    const Crossing coming = bringer.crossing(input);
    double end = coming.end();
    if (s.sent) {
      const auto [of_sent, of_received] = ends_of_both(s.sent->crossing(), coming);
      (void)end_sending(s, of_sent);
      end = of_received;
    }
    s.hold_up(end);
    s.receiving.reset();
    input.received = true;
    return true;
  }

  /// Returns when the sender is through with a message that ends then.
  double end_sending(StageState& s, double end) {
    const Outgoing& output = *s.sent->output;
    const double over = s.sent->crossing().sender_is_through(end);
    s.streams[output.stream] = end;
    s.hold_up(over);
    s.sent.reset();
    moved_ = true;
    return over;
  }

  double send_held_up(StageState& s, const Outgoing& output, Input& input, double ready) {
    double& stream = s.streams[output.stream];
    stream = std::max(stream, s.free.all);
    const double begin = s.issue(output.stream, costs_.launch);
    if (exchanged_) {
      input.since.all = std::max(begin, ready);
      s.sent = {&output, &input};
      return begin;
    }
    input.since.all = stream = begin + output.cost.alone;
    s.hold_up(stream);
    return begin;
  }

  const ClockCosts& costs_;
  const bool exchanged_;
  std::vector<double> free_;  // of each channel: the end of its last message
  bool moved_ = false;
};

/// Plays every stage's actions, each stage's in its order.
class Player {
 public:
  using Spans = std::vector<std::vector<Span>>;

  Player(const Schedule& schedule, const ClockCosts& costs, Spans* spans)
      : schedule_(schedule),
        costs_(costs),
        layout_(schedule.layout()),
        sends_with_passes_(!has_messages(schedule)),
        mail_(costs, schedule.actions.size()),
        spans_(spans),
        stages_(schedule.actions.size()),
        forward_(outputs(true)),
        backward_(outputs(false)) {
    take_inputs();
    for (size_t i = 0; i < stages_.size(); ++i) {
      StageState& s = stages_[i];
      for (int chunk = 0; chunk < layout_.chunks; ++chunk)
        s.parts.push_back(layout_.part_at({static_cast<int>(i), chunk}));
      s.version = schedule.kind.version_of({});
      if (!costs.between_meetings) continue;
      s.free = Moments().after_step(costs.stages[i].step);
      s.host = costs.stages[i].host - costs.stages[i].sums;
    }
  }

  /// Returns false where stages wait for each other.
  bool run() {
    for (moved_ = true; moved_;) {
      moved_ = false;
      for (size_t i = 0; i < stages_.size(); ++i) advance(i);
      for (size_t i = stages_.size(); i-- > 0;) advance(i);
      moved_ |= mail_.moved();
    }
    for (size_t i = 0; i < stages_.size(); ++i)
      if (stages_[i].done < schedule_.actions[i].size()) return false;
    return true;
  }

  const std::vector<StageState>& stages() const { return stages_; }

 private:
  using Outputs = std::vector<Outgoing>;

  /// A pass through a part, with its input if it waits for one. A weight_backward pass has neither
  /// input nor outputs.
  struct Making {
    const Action& action;
    size_t part;
    Outputs* outputs = nullptr;
    Input* input = nullptr;

    const Outgoing* output() const { return outputs == nullptr ? nullptr : &(*outputs)[part]; }
  };

  static bool has_messages(const Schedule& schedule) {
    return std::ranges::any_of(schedule.actions, [](const Actions& actions) {
      return std::ranges::any_of(actions, is_message, &Action::kind);
    });
  }

  Outputs outputs(bool forward) const {
    const int parts = layout_.parts();
    Outputs found(static_cast<size_t>(parts));
    for (int part = 0; part < parts; ++part) {
      Outgoing& output = found[static_cast<size_t>(part)];
      const Seat seat = layout_.seat_of(part);
      output.begins = part == (forward ? 0 : parts - 1);
      if (part == (forward ? parts - 1 : 0)) continue;
      output.to = part + (forward ? 1 : -1);
      output.from_stage = seat.stage;
      output.to_stage = layout_.seat_of(output.to).stage;
      if (output.to_stage == seat.stage) continue;
      output.travels = true;
      output.cost = (forward ? costs_.ahead : costs_.back)[static_cast<size_t>(part)];
      output.stream = forward ? 0 : 1;
      output.channel = static_cast<size_t>(seat.stage) * 4 + (forward ? 2 : 0) +
                       (layout_.goes_back(seat.chunk) ? 1 : 0);
    }
    return found;
  }

  /// Takes memory for all inputs, which stays for the next of a search's thousands of runs.
  void take_inputs() {
    static thread_local std::vector<Input> inputs;
    const auto each =
        static_cast<size_t>(schedule_.end_microbatch() - schedule_.first_microbatch());
    inputs.assign(2 * forward_.size() * each, {});
    Input* next = inputs.data();
    for (Outputs* outputs : {&forward_, &backward_})
      for (Outgoing& output : *outputs) output.inputs = {std::exchange(next, next + each), each};
  }

  Input* input_of(Outputs& outputs, size_t part, int microbatch) const {
    if (outputs[part].begins) return nullptr;
    return &outputs[part].inputs[static_cast<size_t>(microbatch - schedule_.first_microbatch())];
  }
  /// The message that brings a part its input, if it is one.
  static const Outgoing* bringer_of(const Outputs& outputs, size_t part, bool forward) {
    if (outputs[part].begins) return nullptr;
    const Outgoing& output = outputs[forward ? part - 1 : part + 1];
    return output.travels ? &output : nullptr;
  }
  size_t part_of(size_t stage, const Action& action) const {
    return static_cast<size_t>(stages_[stage].parts[static_cast<size_t>(action.chunk)]);
  }

  /// Plays a stage's actions until one has to wait. A search spends most of its time here that it
  /// does not spend on parts: everything is inlined.
  [[gnu::flatten]] void advance(size_t stage) {
    const Actions& actions = schedule_.actions[stage];
    StageState& s = stages_[stage];
    const size_t before = s.done;
    for (; s.done < actions.size(); ++s.done) {
      const Action& action = actions[s.done];
      if (action.beside_next) {
        if (!together(stage, action, actions[s.done + 1])) break;
        ++s.done;
      } else if (!(is_pass(action.kind) ? pass(stage, action) : other(stage, action))) {
        break;
      }
    }
    moved_ |= s.done > before;
  }

  bool other(size_t stage, const Action& action) {
    if (action.kind != ActionKind::step)
      return is_send(action.kind) ? send(stage, action) : receive(stage, action);
    const double begin = stages_[stage].free.all;
    const bool made = any_step(stage, action);
    if (made) note(stage, action, begin);
    return made;
  }

  bool pass(size_t stage, const Action& action) {
    const Making made = making(stage, action);
    if (!begin(stage, made)) return false;
    StageState& s = stages_[stage];
    const bool turning = !costs_.turning.empty() && turns_at(schedule_.actions[stage], s.done);
    const double since = s.free.all;
    spend(s,
          (turning ? costs_.turning : costs_.parts)[made.part][static_cast<size_t>(action.kind)]);
    begin_sums(s, made);
    note(stage, action, since);
    end(stage, made);
    return true;
  }

  /// Begins sums where the pass is the last of its batch through the chunk.
  void begin_sums(StageState& s, const Making& made) {
    if (costs_.beside.empty() || !completes_gradient(made.action.kind)) return;
    const auto chunk = static_cast<size_t>(made.action.chunk);
    s.completing.resize(std::max(s.completing.size(), chunk + 1));
    if (++s.completing[chunk] < schedule_.microbatches) return;
    s.completing[chunk] = 0;
    const size_t split = made.action.kind == ActionKind::weight_backward ? 1 : 0;
    const SumsBeside& sums = costs_.beside[made.part][split];
    s.slow(std::max(0.0, sums.longer - s.delayed));
    s.sums = later(s.sums.after_step(sums.sums), s.free.after_step(sums.behind));
  }

  /// Plays two passes, if the inputs of both are there.
  bool together(size_t stage, const Action& one, const Action& other) {
    const Making first = making(stage, one), second = making(stage, other);
    for (const Input* input : {first.input, second.input})
      if (input != nullptr && !input->here) return false;
    if (!begin(stage, first) || !begin(stage, second)) return false;
    StageState& s = stages_[stage];
    const double since = s.free.all;
    spend(s, costs_.pair(layout_, static_cast<int>(stage), one, other));
    begin_sums(s, second);
    note(stage, one, since);
    note(stage, other, since);
    end(stage, first);
    end(stage, second);
    return true;
  }

  void spend(StageState& s, const PassCost& cost) {
    if (mail_.holds_up()) {
      s.free.all = std::max(s.free.all, s.host + cost.lead);
      s.host += cost.host;
    }
    // Nothing is offloaded where nothing turns.
    if (!costs_.turning.empty()) s.free = later(s.free, s.copies.moved(-cost.grace));
    s.free = s.free.moved(cost.seconds);
    if (cost.copies > 0) s.copies = s.free.moved(cost.copies);
    s.delayed = 0;
    if (costs_.beside.empty() || s.sums.all <= s.free.all - cost.seconds) return;
    const double beside =
        costs_.speeds.together(cost.seconds, s.sums.all - s.free.all + cost.seconds);
    s.delayed = costs_.speeds.delay_of_pass(beside);
    s.slow(s.delayed);
    s.sums = s.sums.after_step(costs_.speeds.delay_of_sums(beside));
  }

  Making making(size_t stage, const Action& action) {
    const size_t part = part_of(stage, action);
    if (action.kind == ActionKind::weight_backward) return {action, part};
    Outputs& outputs = action.kind == ActionKind::forward ? forward_ : backward_;
    return {action, part, &outputs, input_of(outputs, part, action.microbatch)};
  }

  bool begin(size_t stage, const Making& pass) {
    StageState& s = stages_[stage];
    const bool forward = pass.action.kind == ActionKind::forward;
    if (!has_table(stage, pass.action.version)) return false;
    const Outgoing* bringer = pass.outputs == nullptr || !sends_with_passes_
                                  ? nullptr
                                  : bringer_of(*pass.outputs, pass.part, forward);
    if (!mail_.receive(s, pass.input, bringer)) return false;
    if (!schedule_.kind.flushes) use_weights(stage, pass.action);
    return true;
  }

  void end(size_t stage, const Making& pass) {
    StageState& s = stages_[stage];
    if (mail_.holds_up() && costs_.synchronised) s.host = s.free.all;
    const Outgoing* output = pass.output();
    if (output == nullptr || output->to < 0 || (output->travels && !sends_with_passes_)) return;
    (void)mail_.send(
        s, *output,
        *input_of(*pass.outputs, static_cast<size_t>(output->to), pass.action.microbatch));
  }

  // Messages of a schedule that has them, beside passes:

  bool receive(size_t stage, const Action& action) {
    const bool activation = action.kind == ActionKind::receive_activation;
    const size_t part = part_of(stage, action);
    Outputs& outputs = activation ? forward_ : backward_;
    const double since = stages_[stage].free.all;
    if (!mail_.receive(stages_[stage], input_of(outputs, part, action.microbatch),
                       bringer_of(outputs, part, activation)))
      return false;
    note(stage, action, since);
    return true;
  }
  bool send(size_t stage, const Action& action) {
    Outputs& outputs = action.kind == ActionKind::send_activation ? forward_ : backward_;
    const Outgoing& output = outputs[part_of(stage, action)];
    Input& input = *input_of(outputs, static_cast<size_t>(output.to), action.microbatch);
    const double begin = mail_.send(stages_[stage], output, input);
    if (spans_ != nullptr) (*spans_)[stage].push_back({action, begin, input.since.all});
    return true;
  }
  /// Notes an action that ends now.
  void note(size_t stage, const Action& action, double begin) {
    if (spans_ != nullptr) (*spans_)[stage].push_back({action, begin, stages_[stage].free.all});
  }

  /// Copies another version than the one before out, where that takes time.
  void use_weights(size_t stage, const Action& pass) {
    step_table(stage, pass.version);
    StageState& s = stages_[stage];
    const std::vector<double>& copies = costs_.stages[stage].other_version;
    if (pass.version != s.version && !copies.empty())
      s.free = s.free.after_step(copies[static_cast<size_t>(pass.chunk)]);
    s.version = pass.version;
  }

  bool any_step(size_t stage, const Action& action) {
    if (!costs_.validates_later) return step(stage);
    return action.chunk == validation ? validate(stage) : begin_step(stage);
  }

  /// Plays the first half of a step that is validated later (engine/train/stage_validation.cpp),
  /// once the stage before has passed the norm on.
  bool begin_step(size_t stage) {
    StageState& s = stages_[stage];
    const ClockCosts::Stage& costs = costs_.stages[stage];
    norms_.resize(std::max(norms_.size(), s.begun + 1));
    Norm& norm = norms_[s.begun];
    if (norm.stages < stage) return false;
    s.free = later(s.free, s.sums).after_step(costs.sums + costs.norm);
    if (stage > 0) {
      norm.so_far.all += costs_.stages[stage - 1].passed_on;
      s.free = later(s.free, norm.so_far);
    }
    norm.so_far = s.free;
    ++norm.stages;
    s.free = s.free.after_step(costs.ahead);
    ++s.begun;
    return true;
  }
  /// Plays the second half, once the last stage has told the norm.
  bool validate(size_t stage) {
    StageState& s = stages_[stage];
    const Norm& norm = norms_[s.steps.size()];
    if (norm.stages < stages_.size()) return false;
    Moments told = norm.so_far;
    told.all += costs_.stages[stage].told;
    s.free = later(s.free, told).after_step(costs_.stages[stage].validated);
    s.steps.push_back(s.free);
    return true;
  }

  /// Ends a batch, if what the step waits for is there.
  bool step(size_t stage) {
    StageState& s = stages_[stage];
    if (!exchange_before_step(stage)) return false;
    if (costs_.between_meetings) return true;
    const auto newest = static_cast<int>(s.steps.size());
    if (!has_table(stage, newest)) return false;
    step_table(stage, newest);
    s.free = later(s.free, s.sums).after_step(costs_.stages[stage].sums);
    if (costs_.late_table && (stage == 0 || stage + 1 == stages_.size())) {
      s.late_table = true;
      tables_.resize(std::max(tables_.size(), s.steps.size() + 1));
      Table& table = tables_[s.steps.size()];
      ++table.ends;
      table.begin = later(table.begin, s.free);
    }
    s.free = s.free.after_step(costs_.stages[stage].step);
    s.host += costs_.stages[stage].host;
    s.steps.push_back(s.free);
    return true;
  }

  /// Receives the input of the pass behind a step before it (receive_before_steps()).
  bool exchange_before_step(size_t stage) {
    StageState& s = stages_[stage];
    const Actions& actions = schedule_.actions[stage];
    if (s.done + 1 == actions.size() || actions[s.done + 1].kind != ActionKind::forward)
      return mail_.exchange(s, nullptr, nullptr);
    const Action& next = actions[s.done + 1];
    const size_t part = part_of(stage, next);
    return mail_.exchange(s, input_of(forward_, part, next.microbatch),
                          bringer_of(forward_, part, true));
  }

  /// True if this version of the stage's weights lacks the tied table: an end's newest does until
  /// the table's gradients are summed.
  bool lacks_table(size_t stage, int version) const {
    const size_t newest = stages_[stage].steps.size();
    return stages_[stage].late_table && static_cast<size_t>(version) == newest;
  }
  /// True if both ends have begun the table's sum, if it is needed.
  bool has_table(size_t stage, int version) const {
    return !lacks_table(stage, version) || tables_[static_cast<size_t>(version) - 1].ends == 2;
  }
  void step_table(size_t stage, int version) {
    if (!lacks_table(stage, version)) return;
    StageState& s = stages_[stage];
    const Table& table = tables_[static_cast<size_t>(version) - 1];
    s.free = later(s.free, table.begin.after_step(*costs_.late_table))
                 .after_step(costs_.stages[stage].late_step);
    s.late_table = false;
  }

  /// Norm of a batch's gradients: the stages that are in it, and when.
  struct Norm {
    size_t stages = 0;
    Moments so_far;
  };
  /// Sum of a tied table's gradients of a batch.
  struct Table {
    int ends = 0;   // that have begun it
    Moments begin;  // of the later end
  };

  const Schedule& schedule_;
  const ClockCosts& costs_;
  const PartLayout layout_;
  const bool sends_with_passes_;
  Mail mail_;
  Spans* const spans_;
  bool moved_ = false;
  std::vector<StageState> stages_;
  Outputs forward_, backward_;  // of each part
  std::vector<Norm> norms_;     // of each batch
  std::vector<Table> tables_;   // of each batch
};

}  // namespace

std::pair<double, double> ends_of_both(const Crossing& a, const Crossing& b) {
  const bool a_first = a.begin <= b.begin;
  const Crossing& first = a_first ? a : b;
  const Crossing& second = a_first ? b : a;
  if (first.end() <= second.begin) return {a.end(), b.end()};
  const auto slowed = [](const Crossing& t) { return t.cost.beside / t.cost.alone; };
  const double first_left = first.end() - second.begin;
  const double first_slow = first_left * slowed(first);
  const double second_slow = second.cost.alone * slowed(second);
  // Whichever is over first leaves the other one all of its speed.
  const double together = std::min(first_slow, second_slow);
  const double begin = second.begin + together;
  const double first_end = begin + first_left - together / slowed(first);
  const double second_end = begin + second.cost.alone - together / slowed(second);
  return a_first ? std::pair{first_end, second_end} : std::pair{second_end, first_end};
}

bool turns_at(const Actions& passes, size_t index) {
  const size_t begin = passes[index].kind == ActionKind::forward ? index : index - 1;
  if (begin >= passes.size() - 1) return false;  // also where the first one would be before it
  const Action &first = passes[begin], &second = passes[begin + 1];
  return first.kind == ActionKind::forward && second.kind != ActionKind::forward &&
         first.chunk == second.chunk && first.microbatch == second.microbatch;
}

PassCost ClockCosts::pair(const PartLayout& layout, int stage, const Action& one,
                          const Action& other) const {
  if (!together.empty() && other.kind == ActionKind::backward)
    return together[static_cast<size_t>(stage)][static_cast<size_t>(one.chunk)];
  const auto alone = [&](const Action& pass) {
    const int part = layout.part_at({stage, pass.chunk});
    return parts[static_cast<size_t>(part)][static_cast<size_t>(pass.kind)].seconds;
  };
  return {.seconds = alone(one) + alone(other)};
}

bool PipelineClock::run(std::vector<std::vector<Span>>* spans) {
  if (spans != nullptr) spans->assign(schedule_.actions.size(), {});
  Player player(schedule_, costs_, spans);
  const bool over = player.run();
  ends_.clear();
  steps_.clear();
  sums_.clear();
  slowed_.clear();
  for (const StageState& stage : player.stages()) {
    ends_.push_back(stage.free);
    sums_.push_back(stage.sums);
    slowed_.push_back(stage.slowed);
    steps_.push_back(stage.steps);
  }
  return over;
}

BatchTime PipelineClock::time() const {
  return costs_.between_meetings ? between_meetings() : between_steps();
}

BatchTime PipelineClock::between_meetings() const {
  Moments last, met;
  for (size_t i = 0; i < ends_.size(); ++i) {
    last = later(last, ends_[i]);
    met = later(met, later(ends_[i], sums_[i]).after_step(costs_.stages[i].sums));
  }
  // What slows passes of the stage that ends last counts as sums.
  const auto latest = std::ranges::max_element(ends_, {}, &Moments::without_messages);
  const double step = last.without_messages - last.of_passes;
  const double slowed = std::min(step, slowed_[static_cast<size_t>(latest - ends_.begin())]);
  return {.passes = last.of_passes,
          .step = step - slowed,
          .sums = met.without_messages - last.without_messages + slowed,
          .messages = met.all - met.without_messages};
}

/// Divides what sums and steps take together as on the stage where they take longest.
BatchTime PipelineClock::between_steps() const {
  Moments begin, end;
  const size_t batches = steps_.front().size();
  for (const std::vector<Moments>& steps : steps_) {
    begin = later(begin, steps.front());
    end = later(end, steps[batches - 2]);
  }
  const auto mean = [&](double Moments::*of) {
    return (end.*of - begin.*of) / static_cast<double>(batches - 2);
  };
  const ClockCosts::Stage& longest =
      *std::ranges::max_element(costs_.stages, {}, [](const auto& s) { return s.sums + s.step; });
  const double both = longest.sums + longest.step;
  const double passes = mean(&Moments::of_passes), done = mean(&Moments::without_messages);
  const double of_sums = both > 0 ? (done - passes) * longest.sums / both : 0;
  return {.passes = passes,
          .step = done - passes - of_sums,
          .sums = of_sums,
          .messages = mean(&Moments::all) - done};
}

}  // namespace frugal::engine
