#include "engine/plan/walk.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/plan/walk_messages.h"

namespace frugal::engine {
namespace {

/// Makes every stage's passes, each stage's in its order.
class Clock {
 public:
  explicit Clock(const Walk& walk)
      : walk_(walk),
        messages_(walk),
        stages_(walk.actions.size()),
        forward_(ways(true)),
        backward_(ways(false)) {
    take_inputs();
    for (const PartCost& part : walk.parts) costs_.push_back(passes_of(part));
    for (const PartCost& part : walk.turning) turning_.push_back(passes_of(part));
    for (size_t i = 0; i < stages_.size(); ++i) {
      WalkingStage& s = stages_[i];
      for (int chunk = 0; chunk < walk.layout.chunks; ++chunk)
        s.parts.push_back(walk.layout.part_at({static_cast<int>(i), chunk}));
      s.version = walk.actions[i].front().version;
      if (walk.batches > 1) continue;
      s.free = WalkMoments().after_step(walk.step[i]);
      s.host = walk.host_of_step[i] - walk.sums[i];
    }
  }

  /// What each stage has come to when it has made all that it makes; none where stages wait for
  /// each other.
  std::vector<WalkingStage> run() {
    // A search makes thousands of walks, each of what it needs.
    if (walk_.messages == Messages::beside)
      walk_.batches == 1 ? go_around<false, false>() : go_around<false, true>();
    else
      walk_.batches == 1 ? go_around<true, false>() : go_around<true, true>();
    for (size_t i = 0; i < stages_.size(); ++i)
      if (stages_[i].done <= walk_.actions[i].size()) return {};
    return std::move(stages_);
  }

 private:
  /// A pass through a part. The weights' own has neither ways nor an input.
  struct Making {
    const Action& action;
    size_t part;
    std::vector<WalkWay>* ways = nullptr;
    WalkInput* input = nullptr;  ///< what it waits for; null where that is nothing
  };

  std::vector<WalkWay> ways(bool forward) const {
    const int parts = walk_.layout.parts();
    std::vector<WalkWay> found(static_cast<size_t>(parts));
    for (int part = 0; part < parts; ++part) {
      WalkWay& way = found[static_cast<size_t>(part)];
      const Seat seat = walk_.layout.seat_of(part);
      way.begins = part == (forward ? 0 : parts - 1);
      if (part == (forward ? parts - 1 : 0)) continue;
      way.to = part + (forward ? 1 : -1);
      way.from_stage = seat.stage;
      way.to_stage = walk_.layout.seat_of(way.to).stage;
      if (way.to_stage == seat.stage) continue;
      way.travels = true;
      way.message = (forward ? walk_.ahead : walk_.back)[static_cast<size_t>(part)];
      way.stream = forward ? 0 : 1;
      // What goes the same way from a stage travels one after the other, whatever chunk made it.
      way.channel = static_cast<size_t>(seat.stage) * 4 + (forward ? 2 : 0) +
                    (walk_.layout.goes_back(seat.chunk) ? 1 : 0);
    }
    return found;
  }

  /// By ActionKind, and next to each other: there are hundreds of parts, and millions of passes.
  using PassCosts = std::array<PassCost, all_passes.size()>;
  static PassCosts passes_of(const PartCost& part) {
    PassCosts costs;
    for (size_t kind = 0; kind < costs.size(); ++kind)
      costs[kind] = pass_of(part, static_cast<ActionKind>(kind));
    return costs;
  }
  const PassCosts& cost_of(const Making& pass, size_t stage) const {
    const bool turns = !turning_.empty() && Walk::turns(walk_.actions[stage], stages_[stage].done);
    return (turns ? turning_ : costs_)[pass.part];
  }

  /// Memory for what all passes need, which stays for the next of thousands of walks.
  void take_inputs() {
    static thread_local std::vector<WalkInput> inputs;
    const size_t each =
        static_cast<size_t>(walk_.microbatches) * static_cast<size_t>(walk_.batches);
    inputs.assign(2 * forward_.size() * each, {});
    WalkInput* next = inputs.data();
    for (std::vector<WalkWay>* ways : {&forward_, &backward_})
      for (WalkWay& way : *ways) way.inputs = {std::exchange(next, next + each), each};
  }

  /// Each goes as far as it comes, around and around.
  template <bool held_up, bool batches>
  void go_around() {
    for (moved_ = true; moved_;) {
      moved_ = false;
      for (size_t i = 0; i < stages_.size(); ++i) advance<held_up, batches>(i);
      for (size_t i = stages_.size(); i-- > 0;) advance<held_up, batches>(i);
      moved_ |= messages_.moved();
    }
  }

  /// Where a search spends most of its time that is not spent on parts: everything is inlined.
  template <bool held_up, bool batches>
  [[gnu::flatten]] void advance(size_t stage) {
    const Actions& actions = walk_.actions[stage];
    WalkingStage& s = stages_[stage];
    const size_t before = s.done;
    for (; s.done < actions.size(); ++s.done) {
      const Action& action = actions[s.done];
      if (action.beside_next) {
        if (!together<held_up, batches>(stage, action, actions[s.done + 1])) break;
        ++s.done;
      } else if (batches && action.kind == ActionKind::step
                     ? !any_step(stage, action)
                     : !pass<held_up, batches>(stage, action)) {
        break;
      }
    }
    // In the end it waits for what it has sent.
    if (s.done == actions.size() && messages_.exchange(s, nullptr, nullptr)) ++s.done;
    moved_ |= s.done > before;
  }

  /// Makes a pass, if what it needs is there.
  template <bool held_up, bool batches>
  bool pass(size_t stage, const Action& action) {
    const Making pass = making(stage, action);
    if (!begin<held_up, batches>(stage, pass)) return false;
    WalkingStage& s = stages_[stage];
    const PassCost& cost = cost_of(pass, stage)[static_cast<size_t>(action.kind)];
    spend<held_up>(s, cost);
    end<held_up>(stage, pass);
    return true;
  }

  /// Makes two, if what both need is there.
  template <bool held_up, bool batches>
  bool together(size_t stage, const Action& one, const Action& other) {
    const Making first = making(stage, one), second = making(stage, other);
    for (const WalkInput* input : {first.input, second.input})
      if (input != nullptr && !input->here) return false;
    if (!begin<held_up, batches>(stage, first) || !begin<held_up, batches>(stage, second))
      return false;
    WalkingStage& s = stages_[stage];
    const PassCost& cost = walk_.of_pair(stage, one).pass;
    spend<held_up>(s, cost);
    end<held_up>(stage, first);
    end<held_up>(stage, second);
    return true;
  }

  template <bool held_up>
  void spend(WalkingStage& s, const PassCost& cost) {
    if constexpr (held_up) s.give(cost);
    // Nothing is offloaded where nothing turns.
    if (!turning_.empty()) s.free = later(s.free, moved(s.copies, -cost.grace));
    s.free = moved(s.free, cost.seconds);
    if (cost.copies > 0) s.copies = moved(s.free, cost.copies);
  }

  Making making(size_t stage, const Action& action) {
    const auto part = static_cast<size_t>(stages_[stage].parts[static_cast<size_t>(action.chunk)]);
    if (action.kind == ActionKind::weight_backward) return {action, part};
    std::vector<WalkWay>& ways = action.kind == ActionKind::forward ? forward_ : backward_;
    return {action, part, &ways, input_of(ways, part, action.microbatch)};
  }

  template <bool held_up, bool batches>
  bool begin(size_t stage, const Making& pass) {
    WalkingStage& s = stages_[stage];
    if (batches && !has_late(stage, pass.action.version)) return false;
    if constexpr (held_up) {
      const bool forward = pass.action.kind == ActionKind::forward;
      const WalkWay* bringer =
          pass.ways == nullptr ? nullptr : bringer_of(*pass.ways, pass.part, forward);
      if (!messages_.receive(s, pass.input, bringer)) return false;
    } else if (pass.input != nullptr) {
      if (!pass.input->here) return false;
      const bool forward = pass.action.kind == ActionKind::forward;
      if (walk_.synchronised && bringer_of(*pass.ways, pass.part, forward) != nullptr)
        s.free.all += walk_.launch;
      s.free = later(s.free, pass.input->since);
    }
    if constexpr (batches) use_weights(stage, pass.part, pass.action.version);
    return true;
  }

  template <bool held_up>
  void end(size_t stage, const Making& pass) {
    WalkingStage& s = stages_[stage];
    if (held_up && walk_.synchronised) s.host = s.free.all;
    if (pass.ways == nullptr) return;
    const WalkWay& way = (*pass.ways)[pass.part];
    if (!held_up && walk_.synchronised && way.travels) s.free.all += walk_.launch;
    if (way.to >= 0)
      messages_.send(s, way,
                     *input_of(*pass.ways, static_cast<size_t>(way.to), pass.action.microbatch));
  }

  /// Copies another version than the one before out, where that takes time.
  void use_weights(size_t stage, size_t part, int version) {
    step_late(stage, version);
    WalkingStage& s = stages_[stage];
    if (version != s.version) s.free = s.free.after_step(walk_.parts[part].other_version);
    s.version = version;
  }

  static WalkInput* input_of(std::vector<WalkWay>& ways, size_t part, int microbatch) {
    return ways[part].begins ? nullptr : &ways[part].inputs[static_cast<size_t>(microbatch)];
  }
  /// By which message the part gets what it needs, if it is one.
  static const WalkWay* bringer_of(const std::vector<WalkWay>& ways, size_t part, bool is_forward) {
    if (ways[part].begins) return nullptr;
    const WalkWay& way = ways[is_forward ? part - 1 : part + 1];
    return way.travels ? &way : nullptr;
  }

  bool any_step(size_t stage, const Action& action) {
    if (walk_.late_steps.empty()) return step(stage);
    return action.chunk == Walk::validation ? validate(stage) : begin_step(stage);
  }

  /// The first half of a step that is validated later (engine/optimizer/post_validation.h), once
  /// the stage before has passed the norm on.
  bool begin_step(size_t stage) {
    WalkingStage& s = stages_[stage];
    const Walk::LateStep& late = walk_.late_steps[stage];
    norms_.resize(std::max(norms_.size(), s.begun + 1));
    Norm& norm = norms_[s.begun];
    if (norm.stages < stage) return false;
    s.free = s.free.after_step(walk_.sums[stage] + late.norm);
    if (stage > 0) {
      norm.so_far.all += walk_.late_steps[stage - 1].passed_on;
      s.free = later(s.free, norm.so_far);
    }
    norm.so_far = s.free;
    ++norm.stages;
    s.free = s.free.after_step(late.ahead);
    ++s.begun;
    return true;
  }
  /// The second one, once the last stage has told the norm.
  bool validate(size_t stage) {
    WalkingStage& s = stages_[stage];
    const Norm& norm = norms_[s.steps.size()];
    if (norm.stages < stages_.size()) return false;
    WalkMoments told = norm.so_far;
    told.all += walk_.late_steps[stage].told;
    s.free = later(s.free, told).after_step(walk_.late_steps[stage].validated);
    s.steps.push_back(s.free);
    return true;
  }

  /// Ends a batch without a flush, if what it waits for is there.
  bool step(size_t stage) {
    WalkingStage& s = stages_[stage];
    if (!exchange_before_step(stage)) return false;
    const auto newest = static_cast<int>(s.steps.size());
    if (!has_late(stage, newest)) return false;
    step_late(stage, newest);
    s.free = s.free.after_step(walk_.sums[stage]);
    if (walk_.late && (stage == 0 || stage + 1 == stages_.size())) {
      s.late = true;
      late_.resize(std::max(late_.size(), s.steps.size() + 1));
      Late& late = late_[s.steps.size()];
      ++late.ends;
      late.begin = later(late.begin, s.free);
    }
    s.free = s.free.after_step(walk_.step[stage]);
    s.host += walk_.host_of_step[stage];
    s.steps.push_back(s.free);
    return true;
  }

  /// What the pass behind a step needs is received before it (receive_before_steps()).
  bool exchange_before_step(size_t stage) {
    WalkingStage& s = stages_[stage];
    const Actions& actions = walk_.actions[stage];
    if (s.done + 1 == actions.size() || actions[s.done + 1].kind != ActionKind::forward)
      return messages_.exchange(s, nullptr, nullptr);
    const Action& next = actions[s.done + 1];
    const auto part = static_cast<size_t>(s.parts[static_cast<size_t>(next.chunk)]);
    return messages_.exchange(s, input_of(forward_, part, next.microbatch),
                              bringer_of(forward_, part, true));
  }

  /// Whether this version of the stage's weights lacks the tied table: an end's newest does until
  /// the table's gradients are summed.
  bool lacks_table(size_t stage, int version) const {
    const size_t newest = stages_[stage].steps.size();
    return stages_[stage].late && static_cast<size_t>(version) == newest;
  }
  /// Whether both ends have begun the sum, if it is needed.
  bool has_late(size_t stage, int version) const {
    return !lacks_table(stage, version) || late_[static_cast<size_t>(version) - 1].ends == 2;
  }
  void step_late(size_t stage, int version) {
    if (!lacks_table(stage, version)) return;
    WalkingStage& s = stages_[stage];
    const Late& late = late_[static_cast<size_t>(version) - 1];
    const auto part = static_cast<size_t>(s.parts.front());
    s.free =
        later(s.free, late.begin.after_step(*walk_.late)).after_step(walk_.parts[part].late_step);
    s.late = false;
  }

  /// Of a batch's gradients: how many stages' are in it, and when.
  struct Norm {
    size_t stages = 0;
    WalkMoments so_far;
  };
  struct Late {
    int ends = 0;       // that have begun it
    WalkMoments begin;  // when the last of them has
  };

  const Walk& walk_;
  WalkMessages messages_;
  bool moved_ = false;
  std::vector<WalkingStage> stages_;
  std::vector<PassCosts> costs_, turning_;   // of each part
  std::vector<WalkWay> forward_, backward_;  // the same
  std::vector<Norm> norms_;                  // of each batch
  std::vector<Late> late_;                   // the same
};

/// From one meeting of the stages to the next.
WalkTime time_of_flush(const Walk& walk, const std::vector<WalkingStage>& stages) {
  WalkMoments last, met;
  for (size_t i = 0; i < stages.size(); ++i) {
    last = later(last, stages[i].free);
    met = later(met, stages[i].free.after_step(walk.sums[i]));
  }
  return {.passes = last.of_passes,
          .step = last.without_messages - last.of_passes,
          .sums = met.without_messages - last.without_messages,
          .messages = met.all - met.without_messages};
}

/// Between the last stages' steps, the mean of the batches that are neither first nor last.
WalkMoments between_steps(const std::vector<WalkingStage>& stages) {
  WalkMoments begin, end;
  const size_t batches = stages.front().steps.size();
  for (const WalkingStage& stage : stages) {
    begin = later(begin, stage.steps.front());
    end = later(end, stage.steps[batches - 2]);
  }
  const auto mean = [&](double WalkMoments::*of) {
    return (end.*of - begin.*of) / static_cast<double>(batches - 2);
  };
  return {mean(&WalkMoments::all), mean(&WalkMoments::without_messages),
          mean(&WalkMoments::of_passes)};
}

/// Of batches without a flush. What sums and steps take together is divided as it is on the stage
/// where they take longest.
WalkTime time_between_steps(const Walk& walk, const std::vector<WalkingStage>& stages) {
  const WalkMoments mean = between_steps(stages);
  double sums = 0, both = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (walk.sums[i] + walk.step[i] <= both) continue;
    sums = walk.sums[i];
    both = walk.sums[i] + walk.step[i];
  }
  const double more = mean.without_messages - mean.of_passes;
  const double of_sums = both > 0 ? more * sums / both : 0;
  return {.passes = mean.of_passes,
          .step = more - of_sums,
          .sums = of_sums,
          .messages = mean.all - mean.without_messages};
}

}  // namespace

std::optional<WalkTime> time_of(const Walk& walk) {
  const std::vector<WalkingStage> stages = Clock(walk).run();
  if (stages.empty()) return std::nullopt;
  return walk.batches == 1 ? time_of_flush(walk, stages) : time_between_steps(walk, stages);
}

}  // namespace frugal::engine
