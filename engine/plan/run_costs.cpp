#include "engine/plan/run_costs.h"

#include <algorithm>
#include <set>
#include <utility>

namespace frugal::engine {
namespace {

PassCosts costs_of(const PartCost& part) {
  PassCosts costs;
  for (size_t kind = 0; kind < costs.size(); ++kind) costs[kind] = part.*all_passes[kind];
  return costs;
}

/// Plays a pass and the sums over replicas that begin where it has completed gradients, as a
/// VirtualDevice executes them: each slows the other.
class Summing {
 public:
  Summing(const RunConfig& run, const CostModel& times, const SharedSpeeds& speeds)
      : run_(run), times_(times), speeds_(speeds) {}

  /// `elements`: of a bucket, at least.
  SumsBeside of(const std::vector<ModuleCost>& modules, const CostModel::Group& replicas,
                int64_t elements) const {
    const auto enough =
        static_cast<double>(elements) * static_cast<double>(size_of(run_.sum_type()));
    double now = 0, end = 0, alone = 0, bytes = 0;
    SumsBeside beside;
    for (size_t i = 0; i < modules.size(); ++i) {
      const double together = speeds_.together(modules[i].seconds, end - now);
      end += speeds_.delay_of_sums(together);
      now += modules[i].seconds + speeds_.delay_of_pass(together);
      alone += modules[i].seconds;
      bytes += summed_bytes(run_, modules[i].gradients);
      if (bytes < enough && i + 1 < modules.size()) continue;
      const double seconds = run_.shards(Shard::optimizer) ? times_.reduce_scatter(replicas, bytes)
                                                           : times_.all_reduce(replicas, bytes);
      end = std::max(end, now) + seconds;
      beside.sums += seconds;
      bytes = 0;
    }
    beside.longer = now - alone;
    beside.behind = end - now;
    return beside;
  }

 private:
  const RunConfig& run_;
  const CostModel& times_;
  const SharedSpeeds& speeds_;
};

}  // namespace

RunCosts::RunCosts(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const CostModel& times, const Machine& machine)
    : layout_(run.part_layout()), makes_together_(makes_together(run)) {
  const MessageCost message(run, times);
  message_bytes_ = message.bytes;
  clock.messages = run.program.device.messages.kind;
  clock.launch = machine.launch_overhead;
  clock.synchronised = run.program.device.host_waits_around_passes;
  const int parts = layout_.parts();
  clock.speeds = {1 - machine.collective_share, 1 - machine.compute_share};
  ModelPart last;
  const Summing summing(run, times, clock.speeds);
  // A measured step of ranks that divide state has the sums that it waited for.
  const bool overlaps =
      run.overlaps_sums() && !(costs.measured_steps() && run.shards(Shard::optimizer));
  for (int part = 0; part < parts; ++part) {
    const Seat seat = layout_.seat_of(part);
    const ModelPart of = ModelPart::of(run, seat.stage, seat.chunk);
    const bool like_last = part > 0 && costs.alike(of, last);
    parts_.push_back(like_last ? parts_.back() : costs.of(of));
    clock.parts.push_back(costs_of(parts_.back()));
    if (run.offload) {
      turning_.push_back(like_last ? turning_.back() : costs.turning(of));
      clock.turning.push_back(costs_of(turning_.back()));
    }
    last = of;
    if (overlaps) {
      auto& beside = clock.beside.emplace_back();
      const int64_t bucket = run.bucket_elements(seat.stage, seat.chunk);
      for (size_t kind = 0; kind < beside.size() && !run.sums_at_once(seat.stage); ++kind)
        beside[kind] =
            summing.of(costs.modules(of, parts_.back(),
                                     kind == 0 ? &PartCost::backward : &PartCost::weight_backward),
                       links.replicas[static_cast<size_t>(seat.stage)], bucket);
    }
    const auto sent = [&](int to) {
      const int stage = to < 0 || to >= parts ? seat.stage : layout_.seat_of(to).stage;
      return stage == seat.stage ? LinkCost()
                                 : message.over(times, links.between(seat.stage, stage));
    };
    clock.ahead.push_back(sent(part + 1));
    clock.back.push_back(sent(part - 1));
  }
}

void RunCosts::execute_pairs(const RunConfig& run, const PartCosts& costs) {
  if (!makes_together_) return;
  for (int stage = 0; stage < layout_.stages; ++stage) {
    const std::vector<ModelPart> chunks = ModelPart::chunks_of(run, stage);
    const auto& pairs =
        together_.emplace_back(std::array{costs.together(chunks, 0), costs.together(chunks, 1)});
    clock.together.push_back({pairs[0].pass, pairs[1].pass});
  }
}

double RunCosts::least_passes_of(int stage, const ScheduleKind& kind) const {
  const auto least = [&](int chunk, const auto& seconds) {
    const auto index = static_cast<size_t>(layout_.part_at({stage, chunk}));
    const double alone = seconds(parts_[index]);
    return turning_.empty() ? alone : std::min(alone, seconds(turning_[index]));
  };
  double passes = 0;
  for (int chunk = 0; chunk < layout_.chunks; ++chunk)
    passes += least(chunk, [&](const PartCost& part) { return least_passes(kind, part); });
  if (!makes_together_) return passes;
  double pairs = 0;
  for (int chunk = 0; chunk < layout_.chunks; ++chunk) {
    // A pass takes no less time beside another one than alone.
    const double forward = least(chunk, [](const PartCost& part) { return part.forward.seconds; });
    const double backward =
        least(1 - chunk, [](const PartCost& part) { return part.backward.seconds; });
    pairs += together_.empty() ? std::max(forward, backward)
                               : of_pair(stage, {.chunk = chunk}).pass.seconds;
  }
  return std::min(passes, pairs);
}

const PartCost& RunCosts::of_pass(int stage, const Actions& actions, size_t index) const {
  const auto part = static_cast<size_t>(layout_.part_at({stage, actions[index].chunk}));
  return turning_.empty() || !turns_at(actions, index) ? parts_[part] : turning_[part];
}

/// Counts messages that come to a part for a pass, and leave it with what the pass has made.
int RunCosts::messages_of(size_t part, ActionKind pass) const {
  if (pass == ActionKind::weight_backward) return 0;
  const bool ahead = pass == ActionKind::forward;
  const std::vector<LinkCost>& sent = ahead ? clock.ahead : clock.back;
  const size_t before = ahead ? part - 1 : part + 1;  // too large where there is none
  const bool comes = before < sent.size() && sent[before].alone > 0;
  return (comes ? 1 : 0) + (sent[part].alone > 0 ? 1 : 0);
}

StageBusy RunCosts::busy(const Actions& actions, int stage) const {
  StageBusy sum{.device = 0, .host = clock.stages[static_cast<size_t>(stage)].host};
  const auto add = [&sum](int times, const PassCost& cost) {
    sum.device += times * cost.seconds;
    sum.host += times * cost.host;
  };
  /// Passes of a chunk by ActionKind; those alone by whether they turn.
  struct Counts {
    std::array<int, all_passes.size()> all{}, alone{}, turning{};
  };
  std::vector<Counts> chunks(static_cast<size_t>(layout_.chunks));
  bool with_last = false;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!is_pass(actions[i].kind)) continue;
    const auto kind = static_cast<size_t>(actions[i].kind);
    Counts& passes = chunks[static_cast<size_t>(actions[i].chunk)];
    ++passes.all[kind];
    if (actions[i].beside_next)
      add(1, of_pair(stage, actions[i]).pass);
    else if (!with_last)
      ++(turning_.empty() || !turns_at(actions, i) ? passes.alone : passes.turning)[kind];
    with_last = actions[i].beside_next;
  }
  for (int chunk = 0; chunk < layout_.chunks; ++chunk) {
    const Counts& passes = chunks[static_cast<size_t>(chunk)];
    const auto part = static_cast<size_t>(layout_.part_at({stage, chunk}));
    for (size_t i = 0; i < all_passes.size(); ++i) {
      sum.host += clock.launch * passes.all[i] * messages_of(part, static_cast<ActionKind>(i));
      add(passes.alone[i], clock.parts[part][i]);
      if (!turning_.empty()) add(passes.turning[i], clock.turning[part][i]);
    }
  }
  return sum;
}

StageBusy RunCosts::busiest(const Schedule& passes) const {
  StageBusy most;
  for (int stage = 0; stage < layout_.stages; ++stage) {
    const StageBusy all = busy(passes.actions[static_cast<size_t>(stage)], stage);
    most.device = std::max(most.device, all.device);
    most.host = std::max(most.host, all.host);
  }
  return most;
}

/// Bytes that a stage holds while it makes its passes.
class RunCosts::Held {
 public:
  Held(const RunCosts& costs, const Actions& passes, int stage)
      : costs_(costs), passes_(passes), stage_(stage) {
    std::set<std::pair<bool, int>> sides;
    for (int chunk = 0; chunk < costs.layout_.chunks; ++chunk) {
      chunks_.push_back({handed(chunk, true), handed(chunk, false)});
      for (const bool ahead : {true, false})
        if (const auto peer = elsewhere(costs.layout_, {stage, chunk}, ahead))
          sides.emplace(ahead, peer->stage);
    }
    // A message that was sent stays until the next one to the same side, or is waited for.
    if (costs.clock.messages != Messages::exchanged)
      sent_ = static_cast<int64_t>(sides.size()) * costs.message_bytes_;
  }

  int64_t peak() {
    int64_t highest = 0;
    for (size_t i = 0; i < passes_.size(); ++i) {
      if (!is_pass(passes_[i].kind)) continue;
      if (!passes_[i].beside_next) {
        highest = std::max(highest, peak_of_pass(i));
        continue;
      }
      // What came from a chunk of this stage is in the pair's peak.
      const int64_t came = chunk_of(passes_[i]).before + chunk_of(passes_[i + 1]).behind;
      highest = std::max(highest, held_ - came + costs_.of_pair(stage_, passes_[i]).peak);
      (void)peak_of_pass(i);
      (void)peak_of_pass(++i);
    }
    return highest + sent_;
  }

 private:
  /// Bytes that a pass takes from what is held, its peak above the rest, and bytes that it leaves.
  struct Change {
    int64_t takes, above, leaves;
  };
  /// Bytes of what goes from a chunk to the part behind it, or before it, on the same stage.
  struct Handed {
    int64_t behind, before;
  };

  /// Returns the peak with what is held before the pass; holds what the pass leaves.
  int64_t peak_of_pass(size_t index) {
    const Action& pass = passes_[index];
    const Handed& chunk = chunk_of(pass);
    const auto [takes, above, leaves] = of(costs_.of_pass(stage_, passes_, index), pass.kind);
    // What goes to a chunk of this stage waits here; what a pass makes is in its own peak.
    const bool hands = pass.kind != ActionKind::weight_backward;
    const bool forward = pass.kind == ActionKind::forward;
    held_ -= takes + (hands ? (forward ? chunk.before : chunk.behind) : 0);
    const int64_t peak = held_ + above;
    held_ += leaves + (hands ? (forward ? chunk.behind : chunk.before) : 0);
    return peak;
  }
  static Change of(const PartCost& part, ActionKind pass) {
    switch (pass) {
      case ActionKind::forward:
        return {0, part.forward_peak, part.kept};
      case ActionKind::weight_backward:
        return {part.owed, part.weight_backward_peak, 0};
      case ActionKind::input_backward:
        return {part.kept, part.input_backward_peak, part.owed};
      default:
        return {part.kept, part.backward_peak, 0};
    }
  }
  int64_t handed(int chunk, bool ahead) const {
    const auto next = costs_.layout_.neighbour({stage_, chunk}, ahead);
    return next && next->stage == stage_ ? costs_.message_bytes_ : 0;
  }
  const Handed& chunk_of(const Action& pass) const {
    return chunks_[static_cast<size_t>(pass.chunk)];
  }

  const RunCosts& costs_;
  const Actions& passes_;
  const int stage_;
  std::vector<Handed> chunks_;
  int64_t held_ = 0, sent_ = 0;
};

int64_t RunCosts::peak(const Schedule& passes, int stage) const {
  return Held(*this, passes.actions[static_cast<size_t>(stage)], stage).peak();
}

int64_t RunCosts::most_offloaded(const Schedule& passes, int stage) const {
  int64_t now = 0, most = 0;
  const Actions& actions = passes.actions[static_cast<size_t>(stage)];
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!is_pass(actions[i].kind) || actions[i].kind == ActionKind::weight_backward) continue;
    if (actions[i].beside_next) most = std::max(most, now + of_pair(stage, actions[i]).on_host);
    const int64_t kept = of_pass(stage, actions, i).kept_on_host;
    now += actions[i].kind == ActionKind::forward ? kept : -kept;
    if (!actions[i].beside_next) most = std::max(most, now);
  }
  return most;
}

}  // namespace frugal::engine
