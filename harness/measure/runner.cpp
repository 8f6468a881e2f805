#include "harness/measure/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "harness/measure/guarded.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/measure/new_record.h"
#include "harness/place/environment.h"
#include "harness/place/processes.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::harness {

namespace {

constexpr const char* beside_lost_reason =
    "stopped because another case lost the GPU; the same command runs this case again";

/// A training that leaves files behind beside its record: it is run whatever is recorded.
bool saves_files(const Case& c) {
  const auto* training = std::get_if<Training>(&c.workload);
  return training != nullptr && training->saves();
}

/// Of a time, as RoundsSoFar has it; 0 where it is exact.
double uncertainty_of(const Metric& metric) {
  if (metric.unit != "s") return 0;
  const Estimate time = median_estimate(metric.samples);
  return time.interval ? (time.interval->high - time.interval->low) / 2 / time.value : 0;
}

/// A name for the rounds that begin now, which no other run has.
std::string new_rounds() {
  static std::atomic<int> count{0};
  return hash_of(fmt::format("{} {} {}", utc_now(), ::getpid(), ++count));
}

/// Several processes end their turns and rounds together, by the first one's clock.
double first_ones_clock() { return Processes::of_first(steady_seconds()); }

/// A seed that is as new as the rounds, the same in all processes.
uint32_t order_seed_of(const std::string& rounds) {
  const auto seed = static_cast<uint32_t>(std::stoull(rounds.substr(0, 8), nullptr, 16));
  return static_cast<uint32_t>(Processes::of_first(seed));
}

}  // namespace

/// A case with all that is alive while it runs.
struct Runner::Running {
  const Case* of;
  Site* site;
  Record record;
  std::unique_ptr<CaseRun> run = {};
  std::vector<TimeWindow> windows = {};  ///< of what is kept of its turns, or of its steps

  bool on_gpus() const { return site->target->kind() == DeviceKind::cuda; }
  std::string name() const {
    if (!of->title.empty()) return of->title;
    return record.artifact + " " + record.case_id + " on " + setting_of(record).where();
  }
};

double Runner::uncertainty_of(const std::vector<Running>& group) {
  double largest = 0;
  for (const Running& r : group)
    for (const auto& [name, metric] : r.record.metrics)
      largest = std::max(largest, frugal::harness::uncertainty_of(metric));
  return largest;
}

bool Runner::decided(const std::vector<Running>& group) const {
  Records so_far;
  for (const Running& r : group) so_far.add(r.record);
  return !options_.decided || options_.decided(so_far);
}

Runner::Runner(RecordFile& file, Progress& progress, Options options)
    : file_(file),
      progress_(progress),
      options_(std::move(options)),
      earlier_(file.records().size()) {}

Runner::Site& Runner::site(const Case& c) {
  const auto found = sites_.find({c.on, c.lone_rank});
  if (found != sites_.end()) return found->second;
  TargetOptions where = options_.place;
  where.on = c.on;
  where.lone_rank = c.lone_rank;
  const bool another =
      c.source() == Source::simulated && where.machine && c.on != "virtual:" + where.machine->name;
  if (another) where.machine.reset();
  auto target = make_target(where);
  PeakRates peaks(*target);
  return sites_.try_emplace({c.on, c.lone_rank}, Site{std::move(target), std::move(peaks)})
      .first->second;
}

Record Runner::blank(const std::string& artifact, const Case& c) {
  return new_record(artifact, c, *site(c).target, options_.timing, options_.command);
}

std::vector<std::vector<size_t>> grouped(const std::vector<Case>& cases) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::string, size_t> timed;  // the group of those that share rounds
  for (size_t i = 0; i < cases.size(); ++i) {
    size_t group = groups.size();
    if (const std::string rounds = rounds_of(cases[i]); !rounds.empty())
      group = timed.try_emplace(rounds, group).first->second;
    if (group == groups.size()) groups.emplace_back();
    groups[group].push_back(i);
  }
  return groups;
}

const Record* Runner::recorded(const Case& c, const Record& blank) const {
  const Record* const record = last_final(file_.records(), blank);
  const bool earlier = record != nullptr && record < file_.records().data() + earlier_;
  if (!earlier) return record;
  const bool again =
      options_.rerun.asks_for(c, *record) || interrupted_since(file_.records(), *record);
  return again ? nullptr : record;
}

bool Runner::recorded(const std::vector<Running>& group) const {
  if (saves_files(*group.front().of)) return false;
  const Record* first = recorded(*group.front().of, group.front().record);
  return std::all_of(group.begin(), group.end(), [&](const Running& r) {
    const Record* record = recorded(*r.of, r.record);
    return record != nullptr && record->rounds == first->rounds;
  });
}

void Runner::say_recorded(const Running& r) {
  const Record& record = *recorded(*r.of, r.record);
  const std::string outcome =
      record.ok()
          ? "already recorded; --rerun all runs it again"
          : fmt::format("already recorded as {}; --rerun {} runs it again", name_of(record.status),
                        record.status == Status::skipped ? Rerun::all : Rerun::failed);
  if (options_.reports_steps)
    progress_.note(r.name() + ": " + outcome);
  else
    progress_.finished(r.name(), outcome);
}

Records Runner::run(const std::string& artifact, const std::vector<Case>& cases) {
  std::vector<Record> blanks;
  for (const Case& c : cases) {
    blanks.push_back(blank(artifact, c));
    for (const Case* at = &c; !at->smaller.empty(); at = &at->smaller.front())
      blank(artifact, at->smaller.front());
  }
  for (const std::vector<size_t>& members : grouped(cases)) {
    std::vector<Running> group;
    for (const size_t i : members) {
      Running r{&cases[i], &site(cases[i]), blanks[i]};
      if (!saves_files(cases[i]) && failed_alone(r))
        say_recorded(r);
      else
        group.push_back(std::move(r));
    }
    if (group.empty()) continue;
    if (recorded(group)) {
      for (const Running& r : group) say_recorded(r);
      continue;
    }
    for (const Running& r : group)
      if (r.record.ok()) say_made_elsewhere(r.record);
    if (!rounds_of(cases[members.front()]).empty()) {
      const std::string rounds = new_rounds();
      const uint32_t seed = options_.timing.order_seed.value_or(order_seed_of(rounds));
      for (Running& r : group) {
        r.record.rounds = rounds;
        r.record.order_seed = seed;
      }
    }
    run_group(group);
  }
  Records records;
  std::vector<Case> smaller;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Record& record = *recorded(cases[i], blanks[i]);
    if (record.status == Status::oom)
      smaller.insert(smaller.end(), cases[i].smaller.begin(), cases[i].smaller.end());
    records.add(record);
  }
  if (smaller.empty()) return records;
  progress_.more(smaller.size());
  const Records instead = run(artifact, smaller);
  for (const Record& record : instead.all()) records.add(record);
  return records;
}

void Runner::say_made_elsewhere(const Record& blank) {
  if (last_final(file_.records(), blank) != nullptr) return;
  const Record* const record = last_of_case(file_.records(), blank);
  if (record == nullptr || record->fingerprint == blank.fingerprint) return;
  progress_.note_once(
      fmt::format("frugal: cases that were recorded {} are run again; those records are kept",
                  made_elsewhere(*record, blank)));
}

bool Runner::failed_alone(const Running& r) const {
  const Record* const record = recorded(*r.of, r.record);
  return record != nullptr && record->status == Status::failed && record->rounds.empty();
}

void Runner::check_gpu(const std::vector<Running>& group) {
  const bool failed = std::any_of(group.begin(), group.end(), [](const Running& r) {
    return r.record.status == Status::failed && r.site->target->kind() == DeviceKind::cuda;
  });
  if (!failed) return;
  if (const std::string why = why_gpu_lost(); !why.empty())
    throw GpuLost(why + "; what was recorded is kept, and the same command runs the rest");
}

void Runner::end_early(std::vector<Running>& group, const std::string& why,
                       std::optional<Status> guilty) {
  for (Running& r : group) {
    if (r.record.started.empty()) continue;
    if (!r.record.rounds.empty()) r.record.metrics.clear();  // worth something only together
    if (guilty && r.record.status == *guilty) {
      r.record.rounds.clear();
    } else if (r.record.status != Status::skipped && r.record.status != Status::interrupted) {
      r.record.status = Status::interrupted;
      r.record.reason = why;
    }
    finish(r.record);
  }
}

void Runner::run_group(std::vector<Running>& group) {
  const bool gpus = std::any_of(group.begin(), group.end(),
                                [](const Running& r) { return r.on_gpus() && r.record.ok(); });
  if (gpus) gpu_watch_ = std::make_unique<GpuWatch>();
  try {
    for (Running& r : group) {
      r.record.started = utc_now();
      r.record.environment = environment(r.site->target->kind()).dump();
      if (!r.record.ok()) continue;  // skipped
      progress_.working_on(r.name());
      observe(r);
      check_gpu(group);
      add_others_in_memory(r, group);
    }
    if (has_rounds(group.front().of->workload)) time_group(group);
    for (Running& r : group)
      if (r.record.ok() && r.on_gpus())
        add_gpu_load(r.record, *r.of, *r.site->target, gpu_watch_->moments(), r.windows);
    gpu_watch_.reset();
    check_gpu(group);
  } catch (const Interrupted&) {
    end_early(group, interrupted_reason, std::nullopt);
    throw;
  } catch (const GpuLost&) {
    end_early(group, beside_lost_reason, Status::failed);
    throw;
  }
  for (Running& r : group) {
    finish(r.record);
    if (!options_.reports_steps)
      progress_.finished(r.name(), r.record.ok() ? "ok" : r.record.reason);
  }
}

void Runner::observe(Running& r) {
  const StepDone done = [&](int64_t step, const std::string& outcome) {
    if (options_.reports_steps)
      progress_.finished(
          fmt::format("{}{}step {}", r.of->title, r.of->title.empty() ? "" : ": ", step), outcome);
    else
      progress_.working_on(fmt::format("{}, step {}", r.name(), step));
  };
  run_guarded(r.record, [&] {
    stop_if_interrupted();
    r.run = run_of_case(*r.of, *r.site->target, r.site->peaks, done);
    r.run->observe(r.record);
    r.windows = r.run->timed();
  });
  add_needed(r.record, *r.of, *r.site->target);
}

void Runner::add_others_in_memory(Running& r, const std::vector<Running>& group) {
  if (r.record.status != Status::oom) return;
  const auto others = std::count_if(group.begin(), group.end(), [&](const Running& other) {
    return &other != &r && other.run && other.run->holds_memory();
  });
  if (others > 0)
    r.record.reason += fmt::format("; beside the {} other case{} timed by turns with it", others,
                                   others > 1 ? "s" : "");
}

void Runner::time_group(std::vector<Running>& group) {
  std::vector<std::function<void(bool)>> runs;
  for (Running& r : group)
    runs.emplace_back([this, &r, &group](bool keep) { take_turn(r, group, keep); });
  if (group.front().site->target->simulated()) {  // its clock gives the same time every time
    for (const auto& run : runs) run(true);
  } else {
    TimingPlan plan = options_.timing;
    plan.order_seed = group.front().record.order_seed;
    progress_.working_on(fmt::format("{} timing, interleaved; order of seed {}",
                                     group.front().record.artifact, plan.order_seed.value_or(1)));
    time_interleaved(
        runs, plan, first_ones_clock, [&group] { return uncertainty_of(group); },
        [this, &group] { return decided(group); });
  }
  for (Running& r : group)  // the measured peak is to have the device for itself
    if (r.run) r.run->release(r.record);
  for (Running& r : group) {
    if (r.record.ok())
      r.run->rate(r.record);
    else
      r.record.metrics.clear();
  }
}

void Runner::take_turn(Running& r, const std::vector<Running>& group, bool keep) {
  const auto execute = [&](bool kept) {
    if (!r.record.ok()) return false;
    run_guarded(r.record, [&] { r.run->time(r.record, kept); });
    if (!r.record.ok()) check_gpu(group);
    add_others_in_memory(r, group);
    return r.record.ok();
  };
  TimeWindow window{steady_seconds(), 0};
  if (!options_.timing.steady || !keep) {
    execute(keep);
  } else {
    std::map<std::string, size_t> before;
    for (const auto& [name, metric] : r.record.metrics) before[name] = metric.samples.size();
    bool settled = false;
    steady_turn(
        options_.timing,
        [&](bool kept) {
          if (kept && !std::exchange(settled, true)) window.begin = steady_seconds();
          return execute(kept);
        },
        first_ones_clock);
    if (r.record.ok()) join_block(r.record, before);
  }
  window.end = steady_seconds();
  if (keep && r.record.ok()) r.windows.push_back(window);
}

void Runner::join_block(Record& record, const std::map<std::string, size_t>& before) {
  size_t executions = 0;
  for (auto& [name, metric] : record.metrics) {
    const auto found = before.find(name);
    const size_t kept = found == before.end() ? 0 : found->second;
    const size_t added = metric.samples.size() - kept;
    if (added == 0) continue;
    const auto first = metric.samples.begin() + static_cast<std::ptrdiff_t>(kept);
    const double mean =
        std::accumulate(first, metric.samples.end(), 0.0) / static_cast<double>(added);
    metric.samples.resize(kept);
    metric.samples.push_back(mean);
    executions = added;
  }
  record.add_sample(metric::executions, "1", static_cast<double>(executions));
}

void Runner::finish(Record& record) {
  record.ended = utc_now();
  record.environment = ended(record.environment);
  file_.append(record);
}

}  // namespace frugal::harness
