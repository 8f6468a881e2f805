#include "engine/plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/plan/ordered.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// A way to recompute, and what one layer costs with it where replicas divide nothing.
struct RecomputedLayer {
  Recomputation again;
  PartCost layer = {};  ///< nothing where there was no choice
};

RunConfig recomputed_as(RunConfig run, const Recomputation& again) {
  run.recompute = again.kind;
  run.recompute_modules = again.modules;
  return run;
}

/// True if a layer with one is slower than with the other, and saves nothing.
bool is_worse(const PartCost& a, const PartCost& b) {
  const double longer =
      a.forward.seconds + a.backward.seconds - b.forward.seconds - b.backward.seconds;
  return longer >= 0 && a.kept >= b.kept && a.forward_peak >= b.forward_peak &&
         a.backward_peak >= b.backward_peak &&
         (longer > 0 || a.kept > b.kept || a.backward_peak > b.backward_peak);
}

/// Sets of modules whose activations a search recomputes or offloads: those that are worth it, by
/// what a layer takes and keeps. Several threads may ask.
class CandidateModules {
 public:
  CandidateModules(const PlanRequest& request, PlanCosts& costs)
      : request_(request), costs_(costs) {}

  /// Sets that are asked for, without those that another one is never worse than.
  const std::vector<RecomputedLayer>& recomputing(RunConfig like) {
    like.shard = Shard::none;
    // Whole backward passes tell.
    if (like.schedule.flushes) like.schedule = ScheduleKind::one_forward_one_backward;
    like = recomputed_as(std::move(like), {});
    return recomputing_.of(lone_rank_of(like), [&] { return find_recomputing(like); });
  }
  /// Sets to offload, each of which leaves less of a layer on the device than those before.
  const std::vector<LayerModules>& offloading(RunConfig like) {
    like.shard = Shard::none;
    return offloading_.of(lone_rank_of(like), [&] { return find_offloading(like); });
  }

 private:
  /// Lists by what they were found for; the first thread that asks for one finds it.
  template <class T>
  class Found {
   public:
    template <class Find>
    const std::vector<T>& of(const RunConfig& key, const Find& find) {
      List* list = nullptr;
      {
        const std::scoped_lock lock(adding_);
        list = &lists_[key];
      }
      std::call_once(list->once, [&] { list->all = find(); });
      return list->all;
    }

   private:
    struct List {
      std::once_flag once;
      std::vector<T> all;
    };
    std::mutex adding_;  ///< guards the map, not what is in it
    std::unordered_map<RunConfig, List, HashOfFields> lists_;
  };

  std::vector<RecomputedLayer> find_recomputing(const RunConfig& like) const {
    std::vector<RecomputedLayer> layers, worth;  // without what is offloaded
    const auto several =
        std::ranges::count(request_.recompute, Recompute::selective, &Recomputation::kind);
    for (const Recomputation& again : request_.recompute) {
      if (several < 2) {
        worth.push_back({again});
        continue;
      }
      const RunConfig run = recomputed_as(like, again);
      if (run.offload && broken_rule(run)) continue;  // nothing is left to offload
      layers.push_back({again, costs_.of(without_offload(run)).layer()});
    }
    std::ranges::copy_if(layers, std::back_inserter(worth), [&](const RecomputedLayer& one) {
      return one.again.kind != Recompute::selective ||
             std::ranges::none_of(layers, [&](const RecomputedLayer& other) {
               return is_worse(one.layer, other.layer);
             });
    });
    return worth;
  }

  std::vector<LayerModules> find_offloading(RunConfig like) const {
    // By how much of a layer stays on the device; of the same, the smaller set.
    std::map<int64_t, LayerModules, std::greater<>> sets;
    like.offload = true;
    for (const LayerModules set : LayerModules::all_sets(like.kept_modules())) {
      like.offload_modules = set;
      sets.emplace(costs_.of(like).of({.layers = 1}).kept, set);
    }
    std::vector<LayerModules> found;
    for (const auto& [kept, set] : sets) found.push_back(set);
    return found;
  }

  const PlanRequest& request_;
  PlanCosts& costs_;
  Found<RecomputedLayer> recomputing_;
  Found<LayerModules> offloading_;
};

/// Seconds of the fastest that fits, as each turn of a search knows it: of the turns that came at
/// least `lag` earlier, so that what is left out does not depend on how threads take turns.
class Fastest {
 public:
  explicit Fastest(size_t turns) : known_(turns + 1), ended_(turns) {
    known_.front() = std::numeric_limits<double>::infinity();
  }

  /// Waits until the turns that `turn` knows have ended.
  double before(size_t turn) {
    const size_t turns = turn - std::min(turn, lag - 1);
    std::unique_lock lock(mutex_);
    ends_.wait(lock, [&] { return first_running_ >= turns; });
    return known_[turns];
  }
  void end(size_t turn, double fastest) {
    const std::scoped_lock lock(mutex_);
    ended_[turn] = true;
    known_[turn + 1] = fastest;
    for (; first_running_ < ended_.size() && ended_[first_running_]; ++first_running_)
      known_[first_running_ + 1] = std::min(known_[first_running_ + 1], known_[first_running_]);
    ends_.notify_all();
  }
  double of_all() const { return known_.back(); }

 private:
  static constexpr size_t lag = 16;  // more threads than that would wait

  std::mutex mutex_;
  std::condition_variable ends_;
  std::vector<double> known_;  // from as many turns, where those before first_running_ have ended
  std::vector<bool> ended_;
  size_t first_running_ = 0;
};

/// State that the threads of a search share.
struct Shared {
  Shared(const PlanRequest& request, PlanCosts& costs, size_t turns)
      : costs(costs), modules(request, costs), fastest(turns) {}

  /// Bytes that a stage's parameters, gradients and optimizer take on average, and that nothing
  /// that is recomputed makes less. Neither microbatches nor ways to share sequences change them.
  int64_t fixed(RunConfig run) {
    run.data_parallel *= std::exchange(run.context_parallel, 1);
    run.micro_batch = 1;
    if (run.schedule.flushes) run.schedule = ScheduleKind::one_forward_one_backward;
    const PartCosts& all = costs.of(recomputed_as(run, {}));
    return all.without_peaks(ModelPart::whole(run)).fixed / run.pipeline_parallel;
  }

  PlanCosts& costs;
  CandidateModules modules;
  Fastest fastest;
  std::atomic<size_t> next = 0;  ///< of OrderedRuns::all()
};

/// Configuration that may be the fastest of all.
struct Chance {
  enum class Of : uint8_t {
    late_steps,   ///< that are validated later
    some_layers,  ///< recomputed, as few as fit: about so large a share
    offloading    ///< so little that the rest fits
  };
  Of of;
  double seconds;  ///< of a batch, if it is as fast as it can be
  RunConfig run;
  const Links* links;
  double share = 1;
  std::pair<size_t, size_t> turn = {};  ///< decides among equals, whichever thread found them

  bool operator>(const Chance& other) const {
    return std::tie(seconds, turn) > std::tie(other.seconds, other.turn);
  }
};
using Chances = std::priority_queue<Chance, std::vector<Chance>, std::greater<>>;

/// A part of a search: some of the ways to order passes, and all that may be done with each.
class Search {
 public:
  Search(const PlanRequest& request, Shared& shared, const std::vector<Ordered>& all)
      : request_(request), shared_(shared), all_(all) {}

  /// Takes turns with the other threads.
  void take_turns(const SearchProgress& progress) {
    for (turn_ = shared_.next++; turn_ < all_.size(); turn_ = shared_.next++) {
      const auto end = [this](Search*) { shared_.fastest.end(turn_, fastest_); };
      const std::unique_ptr<Search, decltype(end)> turn(this, end);  // others wait for its end
      fastest_ = shared_.fastest.before(turn_);
      divided(all_[turn_]);
      if (progress) progress(turn_, all_.size());
    }
  }

  /// Takes over what another thread has found.
  void join(Search other) {
    for (const auto list : {&Plan::fitting, &Plan::too_large})
      std::ranges::move(other.plan_.*list, std::back_inserter(plan_.*list));
    for (; !other.chances_.empty(); other.chances_.pop()) chances_.push(other.chances_.top());
    if (other.plan_.refused > 0 && (plan_.refused == 0 || other.first_refused_ < first_refused_)) {
      plan_.first_rule = other.plan_.first_rule;
      first_refused_ = other.first_refused_;
    }
    plan_.refused += other.plan_.refused;
    plan_.slower += other.plan_.slower;
    plan_.hopeless += other.plan_.hopeless;
    std::ranges::copy(other.hopeless_, std::back_inserter(hopeless_));
  }

  /// The plan, once all have joined.
  Plan finish() {
    turn_ = std::numeric_limits<size_t>::max();
    fastest_ = shared_.fastest.of_all();
    take_chances();
    if (plan_.fitting.empty()) try_hopeless();
    put_in_order(plan_.fitting);
    put_in_order(plan_.too_large);
    return std::move(plan_);
  }

 private:
  /// Seconds of what is kept.
  double longest() const { return request_.within * fastest_; }

  /// Puts the fastest first; without those that were kept until a faster one was found.
  void put_in_order(std::vector<Candidate>& found) {
    const auto seconds = [](const Candidate& each) { return each.prediction.seconds; };
    std::ranges::stable_sort(
        found, {}, [&](const Candidate& each) { return std::pair(seconds(each), each.turn); });
    const auto end = std::ranges::upper_bound(found, longest(), {}, seconds);
    plan_.slower += found.end() - end;
    found.erase(end, found.end());
  }

  /// Tries all that may be recomputed, and that replicas may divide.
  void divided(const Ordered& ordered) {
    if (ordered.least > longest()) {
      plan_.slower += static_cast<int64_t>(request_.shards.size() * request_.recompute.size());
      return;
    }
    RunConfig run = ordered.run;
    for (const Shard shard : request_.shards) {
      if (shard != Shard::none && run.data_parallel * run.context_parallel == 1) continue;
      run.shard = shard;
      if (allowed(run) && !is_hopeless(run)) recomputed(run, ordered);
    }
  }

  /// True if it does not even nearly fit, however it is recomputed; then it is counted.
  bool is_hopeless(const RunConfig& run) {
    if (!brief_ || run.offload) return false;
    const int64_t bytes = shared_.fixed(run);
    if (static_cast<double>(bytes - request_.memory) <=
        PlanRequest::nearly * static_cast<double>(request_.memory))
      return false;
    plan_.hopeless += static_cast<int64_t>(request_.recompute.size());
    hopeless_.push_back({bytes, turn_, run.shard});
    return true;
  }

  /// Tries those that may miss less than all others, so that the least that is missing is known.
  void try_hopeless() {
    brief_ = false;
    std::ranges::sort(hopeless_, {}, [](const Hopeless& h) { return std::pair(h.fixed, h.turn); });
    int64_t least = std::numeric_limits<int64_t>::max();
    size_t seen = 0;
    for (const auto& [fixed, turn, shard] : hopeless_) {
      for (; seen < plan_.too_large.size(); ++seen)
        least = std::min(least, plan_.too_large[seen].prediction.memory());
      if (least <= fixed) break;
      turn_ = turn;
      RunConfig run = all_[turn].run;
      run.shard = shard;
      plan_.hopeless -= static_cast<int64_t>(request_.recompute.size());
      recomputed(run, all_[turn]);
    }
  }

  void recomputed(const RunConfig& run, const Ordered& ordered) {
    const std::optional<Plain> plain = without_recomputing(run, ordered);
    // Where it fits as it is, or is too slow, it only gets slower.
    if (plain && plain->most_memory <= request_.memory) {
      plan_.slower += static_cast<int64_t>(request_.recompute.size()) - 1;
      return;
    }
    const std::vector<RecomputedLayer>& all = shared_.modules.recomputing(run);
    const auto none =
        std::ranges::find(all, Recompute::none, [](auto& of) { return of.again.kind; });
    for (const RecomputedLayer& each : all) {
      if (plain && each.again.kind == Recompute::none) continue;
      const RunConfig with = recomputed_as(run, each.again);
      if (!allowed(with)) continue;
      if (plain && !is_worth_it(*plain, none->layer, each.layer, with))
        ++plan_.slower;
      else
        (void)stages(with, *ordered.links);
    }
  }

  /// Predicted time and memory of a configuration.
  struct Outcome {
    double seconds, bubble;
    int64_t memory;
  };
  /// Predicted time and memory of configurations that differ in the sizes of stages.
  struct Stages {
    double seconds = std::numeric_limits<double>::infinity();  ///< the least; of none: endless
    int64_t least_memory = std::numeric_limits<int64_t>::max(), most_memory = 0;
  };
  /// Predicted time and memory of configurations without recomputation.
  struct Plain : Stages {
    int64_t fixed;  ///< bytes, of its memory
  };

  /// Prediction without recomputation; only in a brief search that is asked to try it.
  std::optional<Plain> without_recomputing(RunConfig run, const Ordered& ordered) {
    if (!brief_ || request_.recompute.front().kind != Recompute::none) return std::nullopt;
    run = recomputed_as(std::move(run), {});
    if (rule_against(run)) return std::nullopt;
    const std::optional<Stages> found = stages(run, *ordered.links);
    if (!found) return std::nullopt;
    return Plain{*found, shared_.fixed(run)};
  }

  /// True if something that recomputes may be kept, or be the fastest of all if only some layers
  /// do, beside what recomputes nothing. It takes longer than that, by what a stage computes again;
  /// and it saves no more of what is kept than a layer does.
  bool is_worth_it(const Plain& plain, const PartCost& none, const PartCost& layer,
                   const RunConfig& with) const {
    if (layer.forward.seconds == 0) return true;  // not known
    const auto seconds = [&](const PartCost& of) {
      return makes_together(with) ? std::max(of.forward.seconds, of.backward.seconds)
                                  : of.forward.seconds + of.backward.seconds;
    };
    // Some of it may hide behind what stages wait for.
    constexpr double seen = 0.9;
    const auto layers = static_cast<double>(with.model.layers * with.microbatches);
    const double longer = seen * layers / with.pipeline_parallel * (seconds(layer) - seconds(none));
    if (plain.seconds + longer <= longest()) return true;
    if (!request_.some_layers) return false;
    const auto missing = static_cast<double>(plain.least_memory - request_.memory);
    const double kept = static_cast<double>(layer.kept) / static_cast<double>(none.kept);
    const double saved = static_cast<double>(plain.least_memory - plain.fixed) * (1 - kept);
    return missing < saved && plain.seconds + longer * missing / saved <= fastest_;
  }

  /// Stages of equal size, and balanced ones where they are others; none where one is refused.
  std::optional<Stages> stages(RunConfig run, const Links& links) {
    const PartCosts& costs = shared_.costs.of(run);
    const int64_t refused = plan_.refused;
    Stages both;
    const auto add = [&](const std::optional<Outcome>& outcome) {
      if (!outcome) return;
      both.seconds = std::min(both.seconds, outcome->seconds);
      both.least_memory = std::min(both.least_memory, outcome->memory);
      both.most_memory = std::max(both.most_memory, outcome->memory);
    };
    const int64_t parts = run.part_layout().parts();
    const bool equal = run.model.layers % parts == 0;
    if (equal) add(recompute_all_or_some(run, costs, links));
    if (request_.balanced_stages && parts > 1) {
      run.stage_layers = balanced_layers(run, costs);
      const std::vector<int64_t>& layers = run.stage_layers;
      if (!equal || std::ranges::any_of(layers, [&](int64_t n) { return n != layers.front(); }))
        add(recompute_all_or_some(run, costs, links));
    }
    if (plan_.refused > refused) return std::nullopt;
    return both;
  }

  /// Takes chances in the order of how fast they may be, so that the result does not depend on the
  /// order in which others were found.
  void take_chances() {
    for (; !chances_.empty() && chances_.top().seconds < fastest_;) {
      const Chance chance = chances_.top();
      chances_.pop();
      if (chance.of == Chance::Of::some_layers)
        recompute_fewest(chance.run, chance.share, *chance.links);
      else if (chance.of == Chance::Of::offloading)
        offload_least(chance.run, *chance.links);
      else if (allowed(chance.run))
        (void)consider(chance.run, shared_.costs.of(chance.run), *chance.links);
    }
  }

  /// Recomputes in every layer; and in as few as fit, if that may be the fastest of all.
  std::optional<Outcome> recompute_all_or_some(const RunConfig& run, const PartCosts& costs,
                                               const Links& links) {
    const std::optional<Outcome> all = step_soon_or_late(run, costs, links);
    if (request_.searches_offload && all && all->memory > request_.memory &&
        all->seconds < fastest_)
      push({Chance::Of::offloading, all->seconds, run, &links});
    const bool by_layer = run.recompute == Recompute::full || run.recompute == Recompute::selective;
    if (!request_.some_layers || !by_layer || !all || all->memory > request_.memory) return all;
    const RunConfig plain = recomputed_as(run, {});
    if (broken_rule(plain)) return all;
    const auto none = predicted(plain, shared_.costs.of(plain), links);
    if (!none || none->memory() <= request_.memory) return all;
    const double share = static_cast<double>(none->memory() - request_.memory) /
                         static_cast<double>(none->memory() - all->memory);
    const double seconds = none->seconds + share * (all->seconds - none->seconds);
    if (seconds < fastest_) push({Chance::Of::some_layers, seconds, run, &links, share});
    return all;
  }

  /// Recomputes as few of the first layers of each part as fit: about so large a share of them.
  void recompute_fewest(RunConfig run, double share, const Links& links) {
    const std::vector<int64_t>& uneven = run.stage_layers;
    const int64_t layers =
        uneven.empty() ? run.model.layers / run.part_layout().parts() : std::ranges::max(uneven);
    const auto fits = [&](int64_t recomputed) {
      run.recompute_layers = recomputed;
      return predict_memory(run, shared_.costs.of(run), links, request_.machine) <= request_.memory;
    };
    auto fewest = std::clamp(static_cast<int64_t>(std::ceil(share * static_cast<double>(layers))),
                             int64_t{1}, layers);
    while (fewest < layers && !fits(fewest)) ++fewest;
    while (fewest > 1 && fits(fewest - 1)) --fewest;
    if (fewest == layers) return;
    run.recompute_layers = fewest;
    (void)step_soon_or_late(run, shared_.costs.of(run), links);
  }

  /// The set of modules that leaves most on the device of those with which it fits.
  void offload_least(RunConfig run, const Links& links) {
    const std::vector<LayerModules>& sets = shared_.modules.offloading(run);
    run.offload = true;
    const auto is_too_large = [&](LayerModules set) {
      run.offload_modules = set;
      return predict_memory(run, shared_.costs.of(run), links, request_.machine) > request_.memory;
    };
    if (sets.empty() || is_too_large(sets.back())) return;
    run.offload_modules = *std::ranges::partition_point(sets, is_too_large);
    if (allowed(run)) (void)step_soon_or_late(run, shared_.costs.of(run), links);
  }

  // None where a configuration is left out before its outcome is known.

  /// Steps in which stages meet; and those that are validated later, if these may be the fastest.
  std::optional<Outcome> step_soon_or_late(RunConfig run, const PartCosts& costs,
                                           const Links& links) {
    const std::optional<Outcome> meeting = consider(run, costs, links);
    if (!request_.late_steps || !meeting || meeting->seconds - meeting->bubble >= fastest_)
      return meeting;
    run.validate_steps = StepValidation::after;
    if (run.validates_later() && run.schedule.flushes && why_not_predicted(run).empty())
      push({Chance::Of::late_steps, meeting->seconds - meeting->bubble, run, &links});
    return meeting;
  }
  std::optional<Outcome> consider(const RunConfig& run, const PartCosts& costs,
                                  const Links& links) {
    const int64_t refused = plan_.refused;
    auto prediction = predicted(run, costs, links);
    if (!prediction) {
      plan_.slower += plan_.refused == refused ? 1 : 0;
      return std::nullopt;
    }
    const Outcome outcome{prediction->seconds, prediction->part(Bound::bubble),
                          prediction->memory()};
    if (outcome.seconds > longest()) {
      ++plan_.slower;
      return outcome;
    }
    const int64_t missing = std::max<int64_t>(outcome.memory - request_.memory, 0);
    if (missing == 0) fastest_ = std::min(fastest_, outcome.seconds);
    (missing == 0 ? plan_.fitting : plan_.too_large)
        .push_back({run, *std::move(prediction), missing, turn_});
    return outcome;
  }

  /// None where it takes too long, or is refused.
  std::optional<Prediction> predicted(const RunConfig& run, const PartCosts& costs,
                                      const Links& links) {
    try {
      return predict_within(longest(), run, costs, links, request_.machine);
    } catch (const InputError& e) {
      refuse(e);
      return std::nullopt;
    }
  }

  void refuse(const InputError& rule) {
    if (plan_.refused++ > 0) return;
    plan_.first_rule = rule.what();
    first_refused_ = turn_;
  }

  bool allowed(const RunConfig& run) {
    const std::optional<InputError> rule = rule_against(run);
    if (rule) refuse(*rule);
    return !rule;
  }

  void push(Chance chance) {
    chance.turn = {turn_, pushed_++};
    chances_.push(std::move(chance));
  }

  /// Way to divide the devices that does not fit, whatever is recomputed.
  struct Hopeless {
    int64_t fixed;  ///< bytes of a stage
    size_t turn;
    Shard shard;
  };

  const PlanRequest& request_;
  Shared& shared_;
  const std::vector<Ordered>& all_;
  bool brief_ = request_.brief;
  double fastest_ = std::numeric_limits<double>::infinity();  // seconds of what fits
  size_t turn_ = 0;                                           // of OrderedRuns::all()
  size_t pushed_ = 0;                                         // chances
  size_t first_refused_ = 0;
  Plan plan_;
  Chances chances_;
  std::vector<Hopeless> hopeless_;
};

/// Searches with several threads; the caller's reports progress.
Search searched(const PlanRequest& request, Shared& shared, const std::vector<Ordered>& all,
                const SearchProgress& progress) {
  std::vector<Search> parts(static_cast<size_t>(std::max(request.threads, 1)),
                            Search(request, shared, all));
  std::vector<std::future<void>> others;
  for (size_t part = 1; part < parts.size(); ++part)
    others.push_back(std::async(std::launch::async, [&, part] { parts[part].take_turns({}); }));
  parts[0].take_turns(progress);
  for (std::future<void>& other : others) other.get();
  for (size_t part = 1; part < parts.size(); ++part) parts[0].join(std::move(parts[part]));
  return std::move(parts[0]);
}

}  // namespace

Plan search(const PlanRequest& request, const SearchProgress& progress) {
  request.validate();
  PlanCosts costs(request.machine);
  const OrderedRuns ordered(request, costs, std::isfinite(request.within));
  Shared shared(request, costs, ordered.all().size());
  Plan plan = searched(request, shared, ordered.all(), progress).finish();
  plan.not_filling = ordered.not_filling();
  if (plan.fitting.empty() && plan.too_large.empty() && plan.refused > 0)
    throw InputError(plan.first_rule);
  if (plan.fitting.empty() && plan.too_large.empty())
    throw InputError(fmt::format(
        "--devices is {}, and no depth that divides it and the model's {} layers leaves w, b and g "
        "with b x w x d x g = {} (--batch); choose another number of devices or batch",
        request.devices, request.run.model.layers, request.batch));
  return plan;
}

}  // namespace frugal::engine
