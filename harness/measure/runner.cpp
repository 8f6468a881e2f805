#include "harness/measure/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "engine/train/module_run.h"
#include "harness/measure/flops.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/longest.h"
#include "harness/measure/training.h"
#include "harness/place/environment.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal {

std::string what_of(const Case& c) {
  switch (c.what) {
    case Case::What::module_memory:
      return fmt::format("{}_memory", name_of(c.module));
    case Case::What::module_time:
      return fmt::format("{}_time", name_of(c.module));
    case Case::What::training:
      return "training";
    case Case::What::step_memory:
      return "step_memory";
    case Case::What::longest_sequence:
      break;
  }
  return "longest_sequence";
}

namespace {

constexpr const char* interrupted_reason =
    "stopped by a signal; the same command runs this case again, from its start";
constexpr const char* beside_lost_reason =
    "stopped because another case lost the GPU; the same command runs this case again";

/// Whether a case is timed in rounds with others.
bool interleaved(const Case& c) {
  return c.what == Case::What::module_time && c.source() == Source::measured;
}

/// Of a training case.
TrainingRun training_of(const Case& c) {
  TrainingRun run;
  run.config = c.config;
  run.train.optimizer = c.optimizer;
  run.train.steps = c.steps;
  return run;
}

/// A name for the rounds that begin now, which no other run has.
std::string new_rounds() {
  static std::atomic<int> count{0};
  return hash_of(fmt::format("{} {} {}", utc_now(), ::getpid(), ++count));
}

}  // namespace

/// A case with all that is alive while it runs.
struct Runner::Running {
  const Case* of;
  Target* target;
  Record record;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<ModuleRun> module;

  std::string name() const {
    return record.artifact + " " + record.case_id + " on " + setting_of(record).where();
  }
};

void run_guarded(Record& record, const std::function<void()>& work) {
  const auto ended = [&](Status status, const char* reason) {
    record.status = status;
    record.reason = reason;
  };
  try {
    work();
  } catch (const Interrupted&) {
    ended(Status::interrupted, interrupted_reason);
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const OutOfMemory& e) {
    ended(Status::oom, e.what());
  } catch (const DeadlinePassed& e) {
    ended(Status::timeout, e.what());
  } catch (const PeerLost& e) {
    ended(Status::peer_lost, e.what());
  } catch (const std::bad_alloc&) {
    ended(Status::oom, "the host has no more memory for what is not a tensor");
  } catch (const std::exception& e) {
    ended(Status::failed, e.what());
  }
}

std::optional<int64_t> reserved_by(const Device& device) {
  if (!device.backed()) return std::nullopt;
  return device.reserved();
}

Utilization utilization(const Flops& flops, double seconds, Target& target,
                        const RunConfig& config) {
  Utilization u{target.data_sheet_peak(config), target.measured_peak(config), {}, {}, {}, {}};
  const auto fraction = [&](double count, const std::optional<double>& peak,
                            const std::string& unknown) {
    return peak && seconds > 0 ? Fraction{count / seconds / *peak, ""} : Fraction{{}, unknown};
  };
  const std::string no_sheet = target.why_no_data_sheet(config);
  const std::string not_measured = "a virtual machine has no measured peak";
  u.mfu_data_sheet = fraction(flops.model, u.data_sheet_peak, no_sheet);
  u.hfu_data_sheet = fraction(flops.hardware, u.data_sheet_peak, no_sheet);
  u.mfu_measured = fraction(flops.model, u.measured_peak, not_measured);
  u.hfu_measured = fraction(flops.hardware, u.measured_peak, not_measured);
  return u;
}

Runner::Runner(RecordFile& file, Progress& progress, Options options)
    : file_(file), progress_(progress), options_(std::move(options)) {}

Target& Runner::target(const Case& c) {
  TargetOptions where{.on = c.on, .threads = options_.threads, .lone_rank = c.lone_rank};
  if (options_.machine && c.on == "virtual:" + options_.machine->name)
    where.machine = options_.machine;
  return targets_.try_emplace({c.on, c.lone_rank}, where).first->second;
}

Record Runner::blank(const std::string& artifact, const Case& c) {
  const Target& place = target(c);
  if (c.skip.empty()) c.config.validate();
  const std::string skip = c.skip.empty() ? place.why_not(c.config) : c.skip;
  Record record;
  record.artifact = artifact;
  record.case_id = c.id;
  record.what = what_of(c);
  record.source = c.source();
  record.on = place.on();
  record.device = place.device(c.config);
  record.modelled = place.modelled();
  record.machine = place.machine_hash();
  record.scale = c.scale;
  record.config = c.config;
  const bool trained = c.what == Case::What::training;
  if (interleaved(c)) record.options = {{"samples", std::to_string(options_.timing.samples)}};
  if (trained) record.options = options_of(training_of(c));
  if ((interleaved(c) || trained) && place.kind() == DeviceKind::cpu)
    record.options["threads"] = std::to_string(options_.threads);
  if (c.what == Case::What::step_memory) record.options["memory"] = counted_without_limit;
  if (c.what == Case::What::longest_sequence)
    record.options["optimizer"] = name_of(c.optimizer.kind);
  record.options.merge(place.options(c.config.type));
  record.fingerprint = fingerprint_of(record);
  record.command = command_prefix(record.options) + options_.command;
  if (!skip.empty()) {
    record.status = Status::skipped;
    record.reason = skip;
  }
  return record;
}

std::vector<std::vector<size_t>> grouped(const std::vector<Case>& cases) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::string, size_t> timed;  // the group of each real device
  for (size_t i = 0; i < cases.size(); ++i) {
    size_t group = groups.size();
    if (interleaved(cases[i])) group = timed.try_emplace(cases[i].on, group).first->second;
    if (group == groups.size()) groups.emplace_back();
    groups[group].push_back(i);
  }
  return groups;
}

bool Runner::recorded(const std::vector<Running>& group) const {
  const Record* first = last_final(file_.records(), group.front().record);
  return std::all_of(group.begin(), group.end(), [&](const Running& r) {
    const Record* record = last_final(file_.records(), r.record);
    return record != nullptr && record->rounds == first->rounds;
  });
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
      Running r{&cases[i], &target(cases[i]), blanks[i], nullptr, nullptr};
      if (failed_alone(r.record))
        progress_.finished(r.name(), "already recorded");
      else
        group.push_back(std::move(r));
    }
    if (group.empty()) continue;
    if (recorded(group)) {
      for (const Running& r : group) progress_.finished(r.name(), "already recorded");
      continue;
    }
    if (interleaved(cases[members.front()])) {
      const std::string rounds = new_rounds();
      for (Running& r : group) r.record.rounds = rounds;
    }
    run_group(group);
  }
  Records records;
  std::vector<Case> smaller;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Record& record = *last_final(file_.records(), blanks[i]);
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

bool Runner::failed_alone(const Record& blank) const {
  const Record* const record = last_final(file_.records(), blank);
  return record != nullptr && record->status == Status::failed && record->rounds.empty();
}

void Runner::check_gpu(const std::vector<Running>& group) {
  const bool failed = std::any_of(group.begin(), group.end(), [](const Running& r) {
    return r.record.status == Status::failed && r.target->kind() == DeviceKind::cuda;
  });
  if (!failed) return;
  if (const std::string why = why_gpu_lost(); !why.empty())
    throw GpuLost(why + "; what was recorded is kept, and the same command runs the rest");
}

void Runner::end_early(std::vector<Running>& group, const std::string& why,
                       std::optional<Status> guilty) {
  for (Running& r : group) {
    if (r.record.started.empty()) continue;
    r.record.metrics.clear();
    if (guilty && r.record.status == *guilty) {
      r.record.rounds.clear();
    } else if (r.record.status != Status::skipped) {
      r.record.status = Status::interrupted;
      r.record.reason = why;
    }
    finish(r.record);
  }
}

void Runner::run_group(std::vector<Running>& group) {
  try {
    for (Running& r : group) {
      begin(r.record, *r.target);
      if (!r.record.ok()) continue;  // skipped
      progress_.working_on(r.name());
      observe(r);
      check_gpu(group);
      add_others_in_memory(r, group);
    }
    if (group.front().of->what == Case::What::module_time) time_group(group);
    check_gpu(group);
  } catch (const Interrupted&) {
    // None of the group has ended: its samples are worth something only together.
    end_early(group, interrupted_reason, std::nullopt);
    throw;
  } catch (const GpuLost&) {
    end_early(group, beside_lost_reason, Status::failed);
    throw;
  }
  for (Running& r : group) {
    finish(r.record);
    progress_.finished(r.name(), r.record.ok() ? "ok" : r.record.reason);
  }
}

void Runner::observe(Running& r) {
  if (r.of->what == Case::What::training) {
    train(r);
    return;
  }
  run_guarded(r.record, [&] {
    stop_if_interrupted();
    if (r.of->what == Case::What::step_memory)
      observe_step_memory(*r.target, r.record);
    else if (r.of->what == Case::What::longest_sequence)
      search(r);
    else
      observe_module(r);
  });
}

void Runner::observe_module(Running& r) {
  Record& record = r.record;
  r.cluster = r.target->cluster(record.config);
  r.module = std::make_unique<ModuleRun>(*r.cluster, r.of->module);
  const ModuleMemory memory = r.module->memory();
  const double ranks = record.config.tensor_parallel * record.config.context_parallel;
  record.memory = Memory{
      .after_forward = memory.after_forward,
      .peak = memory.peak,
      .peak_total = memory.peak_total,
      .reserved = reserved_by(r.cluster->rank(0).device),
      .stages = {
          {.at_peak = memory.at_peak, .peak = memory.peak_total, .peak_per_kind = memory.peak}}};
  record.work = memory.work;
  record.flops = Flops{module_flops(record.config.model, r.of->module,
                                    static_cast<double>(record.config.micro_batch)),
                       module_formula(record.config.model, r.of->module),
                       ranks * (memory.forward_flops + memory.backward_flops),
                       "executed",
                       {}};
}

void Runner::search(Running& r) {
  const StepOf step{r.of->config, r.of->optimizer};
  const LongestSequence longest = longest_sequence(step, r.target->machine().value());
  r.record.add_sample(metric::longest_sequence, "tokens", static_cast<double>(longest.tokens));
  r.record.add_sample(metric::lengths_refused, "1", static_cast<double>(longest.refused));
  r.record.memory = longest.memory;
  r.record.flops = flops_of(step.with(longest.tokens), longest.flops);
}

void Runner::train(Running& r) {
  run_training(training_of(*r.of), *r.target, r.record, [&](int64_t step, const std::string&) {
    progress_.working_on(fmt::format("{}, step {}", r.name(), step));
  });
}

void Runner::add_others_in_memory(Running& r, const std::vector<Running>& group) {
  if (r.record.status != Status::oom) return;
  const auto others = std::count_if(group.begin(), group.end(), [&](const Running& other) {
    return &other != &r && other.module;
  });
  if (others > 0)
    r.record.reason += fmt::format("; beside the {} other case{} timed by turns with it", others,
                                   others > 1 ? "s" : "");
}

void Runner::time_group(std::vector<Running>& group) {
  std::vector<std::function<void(bool)>> runs;
  for (Running& r : group)
    runs.emplace_back([&r, &group](bool keep) {
      if (!r.record.ok()) return;
      run_guarded(r.record, [&] {
        const ModuleTime time = r.module->time();
        if (!keep) return;
        r.record.add_sample(metric::forward_time, "s", time.forward);
        r.record.add_sample(metric::backward_time, "s", time.backward);
      });
      if (!r.record.ok()) check_gpu(group);
      add_others_in_memory(r, group);
    });
  if (group.front().target->simulated()) {  // its clock gives the same time every time
    for (const auto& run : runs) run(true);
  } else {
    progress_.working_on(group.front().record.artifact + " timing, interleaved");
    time_interleaved(runs, options_.timing);
  }
  for (Running& r : group) {  // the measured peak is to have the device for itself
    if (r.record.ok() && r.cluster)
      r.record.memory->reserved = reserved_by(r.cluster->rank(0).device);
    r.module.reset();
    r.cluster.reset();
  }
  for (Running& r : group) {
    if (!r.record.ok()) {
      r.record.metrics.clear();
      continue;
    }
    std::vector<double> total = r.record.samples(metric::forward_time);
    const std::vector<double>& backward = r.record.samples(metric::backward_time);
    std::transform(total.begin(), total.end(), backward.begin(), total.begin(), std::plus<>());
    r.record.utilization = utilization(*r.record.flops, median(total), *r.target, r.record.config);
  }
}

void Runner::begin(Record& record, const Target& target) {
  record.started = utc_now();
  record.environment = environment(target.kind()).dump();
}

void Runner::finish(Record& record) {
  record.ended = utc_now();
  record.environment = ended(record.environment);
  file_.append(record);
}

}  // namespace frugal
