#include "harness/runner.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/train/layer_run.h"
#include "harness/environment.h"
#include "harness/flops.h"
#include "harness/interrupt.h"
#include "kernels/support/error.h"

namespace frugal {

std::string_view name_of(Case::What what) {
  return what == Case::What::layer_memory ? "layer_memory" : "layer_time";
}

constexpr const char* interrupted_reason = "stopped by a signal; the same command resumes";

/// A case with all that is alive while it runs.
struct Runner::Running {
  Case::What what;
  Record record;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<LayerRun> layer;

  std::string name() const { return record.artifact + " " + record.case_id + " on " + record.on; }
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
  } catch (const std::exception& e) {
    ended(Status::failed, e.what());
  }
}

Utilization utilization(const Flops& flops, double seconds, Target& target,
                        const RunConfig& config) {
  Utilization u{target.data_sheet_peak(config), target.measured_peak(config), {}, {}, {}, {}};
  const auto fraction = [&](double count, const std::optional<double>& peak, const char* unknown) {
    return peak && seconds > 0 ? Fraction{count / seconds / *peak, ""} : Fraction{{}, unknown};
  };
  const char* no_sheet = "no data sheet of this processor; name one with --hardware";
  const char* not_measured = "a virtual machine has no measured peak";
  u.mfu_data_sheet = fraction(flops.model, u.data_sheet_peak, no_sheet);
  u.hfu_data_sheet = fraction(flops.hardware, u.data_sheet_peak, no_sheet);
  u.mfu_measured = fraction(flops.model, u.measured_peak, not_measured);
  u.hfu_measured = fraction(flops.hardware, u.measured_peak, not_measured);
  return u;
}

Runner::Runner(RecordFile& file, Progress& progress, Options options)
    : file_(file), progress_(progress), options_(std::move(options)) {}

Target& Runner::target(const std::string& on) {
  return targets_.try_emplace(on, on, options_.threads).first->second;
}

Record Runner::blank(const std::string& artifact, const Case& c) {
  Record record;
  record.artifact = artifact;
  record.case_id = c.id;
  record.what = name_of(c.what);
  record.source = c.source();
  record.on = c.on;
  record.device = target(c.on).device();
  record.scale = c.scale;
  record.config = c.config;
  if (c.what == Case::What::layer_time && c.source() == Source::measured)
    record.options = {{"threads", std::to_string(options_.threads)},
                      {"samples", std::to_string(options_.timing.samples)}};
  record.fingerprint = fingerprint_of(record);
  record.command = options_.command;
  return record;
}

Records Runner::run(const std::string& artifact, const std::vector<Case>& cases) {
  std::vector<Record> blanks;
  std::vector<std::vector<Running>> groups;
  std::map<std::string, size_t> timed;  // the group of each device
  for (const Case& c : cases) {
    const Record& record = blanks.emplace_back(blank(artifact, c));
    if (last_final(file_.records(), record) != nullptr) {
      progress_.finished(artifact + " " + c.id + " on " + c.on, "already recorded");
      continue;
    }
    if (!c.skip.empty()) {
      Record skipped = record;
      skipped.status = Status::skipped;
      skipped.reason = c.skip;
      begin(skipped);
      finish(skipped);
      progress_.finished(artifact + " " + c.id + " on " + c.on, c.skip);
      continue;
    }
    size_t group = groups.size();
    if (c.what == Case::What::layer_time && c.source() == Source::measured)
      group = timed.try_emplace(c.on, group).first->second;
    if (group == groups.size()) groups.emplace_back();
    groups[group].push_back({c.what, record, nullptr, nullptr});
  }
  for (auto& group : groups) {
    run_group(group);
    group.clear();  // gives its memory back
  }
  Records records;
  for (const Record& record : blanks) records.add(*last_final(file_.records(), record));
  return records;
}

void Runner::run_group(std::vector<Running>& group) {
  try {
    for (Running& r : group) {
      progress_.working_on(r.name());
      begin(r.record);
      run_guarded(r.record, [&] {
        stop_if_interrupted();
        r.cluster = target(r.record.on).cluster(r.record.config);
        r.layer = std::make_unique<LayerRun>(*r.cluster);
        const LayerMemory memory = r.layer->memory();
        const double ranks = r.record.config.tensor_parallel;
        r.record.memory = {memory.after_forward, memory.peak, memory.peak_total};
        r.record.flops = Flops{layer_flops_eq7(r.record.config.model,
                                               static_cast<double>(r.record.config.micro_batch)),
                               layer_eq7_id,
                               ranks * (memory.forward_flops + memory.backward_flops),
                               "executed",
                               {}};
      });
    }
    if (group.front().what == Case::What::layer_time) time_group(group);
  } catch (const Interrupted&) {
    // None of the group has ended: its samples are worth something only together.
    for (Running& r : group) {
      if (r.record.started.empty()) continue;
      r.record.metrics.clear();
      r.record.status = Status::interrupted;
      r.record.reason = interrupted_reason;
      finish(r.record);
    }
    throw;
  }
  for (Running& r : group) {
    finish(r.record);
    progress_.finished(r.name(), r.record.ok() ? "ok" : r.record.reason);
  }
}

void Runner::time_group(std::vector<Running>& group) {
  std::vector<std::function<void(bool)>> runs;
  for (Running& r : group)
    runs.emplace_back([&r](bool keep) {
      if (!r.record.ok()) return;
      run_guarded(r.record, [&] {
        const LayerTime time = r.layer->time();
        if (!keep) return;
        for (const auto& [name, seconds] : {std::pair{metric::forward_time, time.forward},
                                            std::pair{metric::backward_time, time.backward}}) {
          r.record.metrics[name].unit = "s";
          r.record.metrics[name].samples.push_back(seconds);
        }
      });
    });
  if (target(group.front().record.on).simulated()) {  // its clock gives the same time every time
    for (const auto& run : runs) run(true);
  } else {
    progress_.working_on(group.front().record.artifact + " timing, interleaved");
    time_interleaved(runs, options_.timing);
  }
  for (Running& r : group) {
    if (!r.record.ok()) {
      r.record.metrics.clear();
      continue;
    }
    std::vector<double> total = r.record.samples(metric::forward_time);
    const std::vector<double>& backward = r.record.samples(metric::backward_time);
    std::transform(total.begin(), total.end(), backward.begin(), total.begin(), std::plus<>());
    r.record.utilization =
        utilization(*r.record.flops, median(total), target(r.record.on), r.record.config);
  }
}

void Runner::begin(Record& record) {
  record.started = utc_now();
  record.environment = environment().dump();
}

void Runner::finish(Record& record) {
  record.ended = utc_now();
  file_.append(record);
}

}  // namespace frugal
