#include "harness/measure/runs/fit_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "engine/cluster/cluster.h"
#include "engine/plan/request.h"
#include "harness/measure/at_once.h"
#include "harness/measure/runs/recompute_search.h"
#include "harness/measure/runs/training.h"
#include "harness/place/environment.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// Makes a change, and says which.
using FitChange = std::function<std::string(RunConfig&)>;
/// Changes of the same kind, of which one or none is made; the next mostly needs less memory.
using FitAxis = std::vector<FitChange>;
/// Number of the change that is made on each axis, from 1 on; 0 for none.
using Levels = std::vector<size_t>;

FitChange recomputing(Recompute recompute, LayerModules modules) {
  return [=](RunConfig& c) {
    c.recompute = recompute;
    c.recompute_modules = modules;
    c.recompute_layers = 0;
    c.recompute_group = 1;
    return recompute == Recompute::selective ? "recompute selective " + name_of(modules)
                                             : fmt::format("recompute {}", name_of(recompute));
  };
}

FitAxis recomputations(const RunConfig& given) {
  using enum LayerModule;
  FitAxis axis;
  if (given.recompute == Recompute::stage) return axis;
  const bool some = given.recompute_layers > 0;
  if (given.recompute != Recompute::full) {
    const LayerModules before =
        given.recompute == Recompute::none ? LayerModules() : given.recompute_modules;
    for (const LayerModules more :
         {RunConfig::cores, LayerModules{norm, core_attention, activation},
          LayerModules{norm, core_attention, mlp}, LayerModules::searched})
      if (before.without(more).empty() && (some || more != before))
        axis.push_back(recomputing(Recompute::selective, more));
  }
  if (some || given.recompute != Recompute::full)
    axis.push_back(recomputing(Recompute::full, RunConfig::cores));
  return axis;
}

FitAxis smaller_microbatches(const RunConfig& given) {
  std::vector<int64_t> sizes = divisors(given.micro_batch);
  sizes.pop_back();
  std::ranges::reverse(sizes);
  FitAxis axis;
  for (const int64_t size : sizes)
    axis.emplace_back([size](RunConfig& c) {
      c.microbatches *= c.micro_batch / size;
      c.micro_batch = size;
      return fmt::format("microbatch_size {}, microbatches {}", size, c.microbatches);
    });
  return axis;
}

FitAxis divisions(const RunConfig& given) {
  FitAxis axis;
  if (given.data_parallel * given.context_parallel == 1) return axis;
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::weights})
    if (shard > given.shard)
      axis.emplace_back([shard](RunConfig& c) {
        c.shard = shard;
        return fmt::format("shard {}", name_of(shard));
      });
  return axis;
}

/// Axes of a run, in the order in which their changes are made.
std::vector<FitAxis> axes_of(const TrainingRun& run) {
  const RunConfig& given = run.config;
  std::vector<FitAxis> all = {smaller_microbatches(given), divisions(given), recomputations(given)};
  const auto add = [&](bool possible, FitChange change) {
    if (possible) all.push_back({std::move(change)});
  };
  add(given.schedule == ScheduleKind::gpipe, [](RunConfig& c) {
    c.schedule = ScheduleKind::one_forward_one_backward;
    return std::string("schedule 1f1b");
  });
  add(given.tensor_parallel > 1 && !given.sequence_parallel, [](RunConfig& c) {
    c.sequence_parallel = true;
    return std::string("sequence_parallel");
  });
  add(given.head_mini_sequences() == 1, [](RunConfig& c) {
    c.head_chunks = RunConfig::by_rule;
    return std::string("head_chunks paper");
  });
  add(given.mlp_mini_sequences() == 1, [](RunConfig& c) {
    c.mlp_chunks = RunConfig::by_rule;
    return std::string("mlp_chunks paper");
  });
  add(true, [](RunConfig& c) {
    c.offload = true;
    c.offload_modules = c.kept_modules();
    c.offload_layers = 0;
    return "offload_modules " + name_of(c.offload_modules);
  });
  add(!given.offload_optimizer, [](RunConfig& c) {
    c.offload_optimizer = true;
    return std::string("offload_optimizer");
  });
  add(!given.step_in_backward && run.train.optimizer.clip == 0, [](RunConfig& c) {
    c.step_in_backward = true;
    return std::string("step_in_backward");
  });
  std::erase_if(all, [](const FitAxis& axis) { return axis.empty(); });
  return all;
}

bool is_part_of(const Levels& a, const Levels& b) {
  return std::ranges::equal(a, b, std::ranges::less_equal{});
}

class FitSearcher {
 public:
  FitSearcher(const TrainingRun& run, const Target& target, const Needed& needed,
              const std::function<void(int64_t)>& tried)
      : run_(run), target_(target), needed_(needed), tried_(tried), axes_(axes_of(run)) {}

  FitSearch found() {
    const Levels none(axes_.size(), 0);
    execute({none});
    const Levels lean = leanest();
    if (executed_.at(lean).peak <= needed_.capacity) {
      try_in_order(lean);
      try_others();
      keep_fastest();
      for (LeanerRun& one : found_) as_few_layers(one);
    }
    std::ranges::stable_sort(found_, {}, &LeanerRun::seconds);
    if (found_.size() > most_found) found_.resize(most_found);
    return {found_, *closest(), count_};
  }

 private:
  static constexpr size_t most_found = 3;
  static constexpr int64_t most_executed = 160;

  /// Configuration with the changes of `levels`; none where a rule forbids it.
  std::optional<LeanerRun> made(const Levels& levels) const {
    LeanerRun one{.config = run_.config, .changes = {}};
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (levels[i] == 0) continue;
      const std::string change = axes_[i][levels[i] - 1](one.config);
      one.changes += (one.changes.empty() ? "" : ", ") + change;
    }
    if (broken_rule(one.config)) return std::nullopt;
    return one;
  }

  void execute(LeanerRun& one) const {
    const OptimizerOptions& optimizer = run_.train.optimizer;
    const StepTaken taken =
        take_step(*target_.cluster_with(one.config, std::numeric_limits<int64_t>::max()),
                  one.config, optimizer);
    one.seconds = taken.seconds;
    one.peak = taken.memory.peak_total;
    one.host = taken.memory.host_peak;
    one.fits = missing(one) == 0 && has_room(one.config);
  }

  /// Whether what an allocator loses to fragments is there, too.
  bool has_room(const RunConfig& config) const {
    if (!config.program.device.caching_allocator) return true;
    try {
      take_step(*target_.cluster(config), config, run_.train.optimizer);
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  }

  int64_t missing(const LeanerRun& one) const {
    const int64_t host = needed_.host_capacity ? one.host - *needed_.host_capacity : 0;
    return std::max<int64_t>(one.peak - needed_.capacity, 0) + std::max<int64_t>(host, 0);
  }

  /// Executes those of `all` that were not executed before and that no rule forbids.
  void execute(const std::vector<Levels>& all) {
    std::vector<std::pair<Levels, LeanerRun>> runs;
    for (const Levels& levels : all)
      if (!executed_.contains(levels))
        if (auto one = made(levels)) runs.emplace_back(levels, std::move(*one));
    at_once(runs.size(), [&](size_t i) { execute(runs[i].second); });
    for (auto& [levels, one] : runs) executed_.insert_or_assign(levels, std::move(one));
    count_ += static_cast<int64_t>(runs.size());
    tried_(count_);
  }

  /// Every allowed set of levels that differs from `levels` at most on one axis, in its order.
  std::vector<Levels> along(size_t axis, Levels levels) const {
    std::vector<Levels> all;
    for (levels[axis] = 0; levels[axis] <= axes_[axis].size(); ++levels[axis])
      if (made(levels)) all.push_back(levels);
    return all;
  }

  /// Levels of least device memory that a search of one axis after the other finds.
  Levels leanest() {
    Levels levels(axes_.size(), 0);
    for (size_t i = 0; i < axes_.size(); ++i) levels = along(i, levels).back();
    for (size_t i = 0; i < axes_.size(); ++i) {
      const std::vector<Levels> all = along(i, levels);
      execute(all);
      levels = *std::ranges::min_element(
          all, {}, [this](const Levels& each) { return executed_.at(each).peak; });
    }
    return levels;
  }

  /// Seconds that each level of each axis adds to those of `levels`; 0 where it is not allowed.
  std::vector<std::vector<double>> added(const Levels& levels) {
    std::vector<std::vector<double>> seconds;
    for (size_t i = 0; i < axes_.size(); ++i) {
      execute(along(i, levels));
      Levels one = levels;
      std::vector<double>& of_axis = seconds.emplace_back();
      for (one[i] = 0; one[i] <= axes_[i].size(); ++one[i]) {
        const auto found = executed_.find(one);
        of_axis.push_back(
            found == executed_.end() ? 0 : found->second.seconds - executed_.at(levels).seconds);
      }
    }
    return seconds;
  }

  struct Chance {
    Levels levels;
    double seconds;  // that it should take
  };

  /// Sets of levels that may fit, the fastest first, judged by what fits where only one axis of
  /// `lean` is changed.
  std::vector<Chance> chances(const Levels& lean) {
    const Levels none(axes_.size(), 0);
    const auto first = added(none), last = added(lean);
    std::vector<Chance> all = {{none, 0}};
    for (size_t i = 0; i < axes_.size(); ++i) {
      std::vector<Chance> more;
      Levels one = lean;
      for (one[i] = 0; one[i] <= axes_[i].size(); ++one[i]) {
        const auto found = executed_.find(one);
        if (found != executed_.end() && found->second.peak > needed_.capacity) continue;
        for (Chance chance : all) {
          chance.levels[i] = one[i];
          chance.seconds += (first[i][one[i]] + last[i][one[i]] - last[i][0]) / 2;
          more.push_back(std::move(chance));
        }
      }
      all = std::move(more);
    }
    std::ranges::stable_sort(all, {}, &Chance::seconds);
    return all;
  }

  /// Whether it is worth a try: what it is a part of has not failed, and no part of it fits.
  bool is_open(const Levels& levels) const {
    return std::ranges::none_of(executed_, [&](const auto& each) {
      const auto& [other, one] = each;
      return one.fits ? is_part_of(other, levels)
                      : one.peak > needed_.capacity && is_part_of(levels, other);
    });
  }

  void try_in_order(const Levels& lean) {
    const double given = executed_.at(Levels(axes_.size(), 0)).seconds;
    const auto at_a_time = static_cast<size_t>(usable_processors());
    const std::vector<Chance> all = chances(lean);
    std::vector<Levels> next;
    for (const Chance& chance : all) {
      if (count_ >= most_executed || is_enough(given + chance.seconds)) break;
      if (is_open(chance.levels) && made(chance.levels)) next.push_back(chance.levels);
      if (next.size() < at_a_time) continue;
      execute(next);
      next.clear();
    }
    execute(next);
  }

  /// Whether the fastest of what fits are known, where the rest takes so many seconds and more.
  bool is_enough(double seconds) const {
    const auto faster = std::ranges::count_if(executed_, [&](const auto& each) {
      return each.second.fits && each.second.seconds <= seconds;
    });
    return static_cast<size_t>(faster) >= most_found;
  }

  /// Sets of levels that fit, the fastest first.
  std::vector<Levels> fitting() const {
    std::vector<Levels> all;
    for (const auto& [levels, one] : executed_)
      if (one.fits) all.push_back(levels);
    std::ranges::stable_sort(all, {}, [&](const Levels& l) { return executed_.at(l).seconds; });
    return all;
  }

  /// Goes from the fastest that fits to those that differ from it on one axis and do without what
  /// they need not, until none of these is faster.
  void try_others() {
    for (std::vector<Levels> fit = fitting(); !fit.empty() && count_ < most_executed;) {
      const Levels fastest = fit.front();
      for (size_t i = 0; i < axes_.size(); ++i) {
        const std::vector<Levels> others = along(i, fastest);
        execute(others);
        for (const Levels& other : others)
          if (executed_.at(other).fits) leave_out(other);
      }
      fit = fitting();
      if (fit.front() == fastest) return;
    }
  }

  /// Levels that fit, without changes that they can do without.
  Levels leave_out(Levels levels) {
    for (size_t i = 0; i < axes_.size(); ++i) {
      std::vector<Levels> fewer = along(i, levels);
      std::erase_if(fewer, [&](const Levels& other) { return other[i] >= levels[i]; });
      execute(fewer);
      const auto found = std::ranges::find_if(
          fewer, [this](const Levels& other) { return executed_.at(other).fits; });
      if (found != fewer.end()) levels = *found;
    }
    return levels;
  }

  void keep_fastest() {
    std::vector<Levels> kept;
    for (const Levels& each : fitting()) {
      if (kept.size() == most_found) break;
      Levels levels = leave_out(each);
      const auto has_more = [&](const Levels& other) { return is_part_of(other, levels); };
      if (std::ranges::none_of(kept, has_more)) kept.push_back(std::move(levels));
    }
    for (const Levels& levels : kept) found_.push_back(executed_.at(levels));
  }

  /// Lowers the layers that the changes recompute or offload to the fewest that still fit.
  void as_few_layers(LeanerRun& one) {
    const RunConfig& given = run_.config;
    if (one.config.recompute != given.recompute ||
        one.config.recompute_modules != given.recompute_modules)
      fewest(one, &RunConfig::recompute_layers, "recompute_layers");
    if (one.config.offload && !given.offload)
      fewest(one, &RunConfig::offload_layers, "offload_layers");
  }

  void fewest(LeanerRun& one, int64_t RunConfig::*layers, const char* name) {
    int64_t too_few = 0, enough = most_layers_of(one.config);
    LeanerRun best = one;
    while (enough - too_few > 1) {
      LeanerRun fewer = one;
      const int64_t middle = too_few + (enough - too_few) / 2;
      fewer.config.*layers = middle;
      fewer.changes += fmt::format(", {} {}", name, middle);
      if (!broken_rule(fewer.config)) {
        execute(fewer);
        tried_(++count_);
      }
      (fewer.fits && fewer.seconds <= one.seconds ? enough : too_few) = middle;
      if (enough == middle) best = std::move(fewer);
    }
    one = std::move(best);
  }

  const LeanerRun* closest() const {
    return &std::ranges::min_element(executed_, {}, [this](const auto& each) {
              return missing(each.second);
            })->second;
  }

  const TrainingRun& run_;
  const Target& target_;
  const Needed& needed_;
  const std::function<void(int64_t)>& tried_;
  const std::vector<FitAxis> axes_;
  std::map<Levels, LeanerRun> executed_;
  std::vector<LeanerRun> found_;
  int64_t count_ = 0;
};

}  // namespace

FitSearch search_fit(const TrainingRun& run, const Target& target, const Needed& needed,
                     const std::function<void(int64_t)>& tried) {
  return FitSearcher(run, target, needed, tried).found();
}

}  // namespace frugal::harness
