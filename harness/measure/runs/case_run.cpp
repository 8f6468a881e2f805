#include "harness/measure/runs/case_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/train/module_run.h"
#include "harness/measure/flops.h"
#include "harness/measure/guarded.h"
#include "harness/measure/runs/longest.h"
#include "harness/measure/runs/training.h"
#include "harness/measure/statistics.h"

namespace frugal::harness {
namespace {

/// Each kind's function, by the kind.
template <class... Functions>
struct ByKind : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
ByKind(Functions...) -> ByKind<Functions...>;

class ModuleMemoryRun : public CaseRun {
 public:
  ModuleMemoryRun(const Case& c, Module module, const Target& target)
      : case_(c), module_(module), target_(target) {}

  void observe(Record& record) override {
    const RunConfig& config = case_.config;
    cluster_ = target_.cluster(config);
    run_ = std::make_unique<ModuleRun>(*cluster_, module_);
    const ModuleMemory memory = run_->memory();
    const double ranks = config.tensor_parallel * config.context_parallel;
    record.memory = Memory{.after_forward = memory.after_forward,
                           .peak = memory.peak,
                           .peak_total = memory.peak_total,
                           .reserved = reserved_by(cluster_->rank(0).device),
                           .stages = {{.at_peak = memory.at_peak,
                                       .peak = memory.peak_total,
                                       .peak_per_kind = memory.peak,
                                       .kept = memory.kept}}};
    record.work = memory.work;
    record.flops =
        Flops{module_flops(config.model, module_, static_cast<double>(config.micro_batch)),
              module_formula(config.model, module_),
              ranks * (memory.forward_flops + memory.backward_flops),
              "executed",
              {}};
  }
  bool holds_memory() const override { return run_ != nullptr; }

 protected:
  const Case& case_;
  const Module module_;
  const Target& target_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<ModuleRun> run_;
};

class ModuleTimeRun final : public ModuleMemoryRun {
 public:
  ModuleTimeRun(const Case& c, Module module, const Target& target, PeakRates& peaks)
      : ModuleMemoryRun(c, module, target), peaks_(peaks) {}

  void time(Record& record, bool keep) override {
    const ModuleTime time = run_->time();
    if (!keep) return;
    record.add_sample(metric::forward_time, "s", time.forward);
    record.add_sample(metric::backward_time, "s", time.backward);
  }
  void release(Record& record) override {
    if (record.ok() && cluster_) record.memory->reserved = reserved_by(cluster_->rank(0).device);
    run_.reset();
    cluster_.reset();
  }
  void rate(Record& record) override {
    std::vector<double> total = record.samples(metric::forward_time);
    const std::vector<double>& backward = record.samples(metric::backward_time);
    std::transform(total.begin(), total.end(), backward.begin(), total.begin(), std::plus<>());
    record.utilization = utilization(*record.flops, median(total), peaks_, case_.config);
  }

 private:
  PeakRates& peaks_;
};

class StepMemoryRun final : public CaseRun {
 public:
  explicit StepMemoryRun(const Target& target) : target_(target) {}

  void observe(Record& record) override { observe_step_memory(target_, record); }

 private:
  const Target& target_;
};

class LongestSequenceRun final : public CaseRun {
 public:
  LongestSequenceRun(const Case& c, const OptimizerOptions& optimizer, const Target& target)
      : step_{c.config, optimizer}, machine_(target.machine().value()) {}

  void observe(Record& record) override {
    const LongestSequence longest = longest_sequence(step_, machine_);
    record.add_sample(metric::longest_sequence, "tokens", static_cast<double>(longest.tokens));
    record.add_sample(metric::lengths_refused, "1", static_cast<double>(longest.refused));
    record.memory = longest.memory;
    record.flops = flops_of(step_.with(longest.tokens), longest.flops);
  }

 private:
  const StepOf step_;
  const Machine& machine_;
};

class TrainingCaseRun final : public CaseRun {
 public:
  TrainingCaseRun(const Case& c, const Training& training, const Target& target, PeakRates& peaks,
                  StepDone done)
      : run_{training, c.config}, target_(target), peaks_(peaks), done_(std::move(done)) {}

  void observe(Record& record) override {
    timed_ = train(run_, target_, record, done_);
    record.utilization =
        utilization(*record.flops, median(record.samples(metric::step_time)), peaks_, run_.config);
  }
  std::vector<TimeWindow> timed() const override { return timed_; }

 private:
  const TrainingRun run_;
  const Target& target_;
  PeakRates& peaks_;
  const StepDone done_;
  std::vector<TimeWindow> timed_;
};

}  // namespace

std::string what_of(const Workload& workload) {
  return std::visit(
      ByKind{
          [](const workload::ModuleMemory& w) {
            return fmt::format("{}_memory", name_of(w.module));
          },
          [](const workload::ModuleTime& w) { return fmt::format("{}_time", name_of(w.module)); },
          [](const workload::StepMemory&) { return std::string("step_memory"); },
          [](const workload::LongestSequence&) { return std::string("longest_sequence"); },
          [](const workload::Benchmark&) { return std::string("benchmark"); },
          [](const Training&) { return std::string("training"); }},
      workload);
}

bool has_rounds(const Workload& workload) {
  return std::holds_alternative<workload::ModuleTime>(workload) ||
         std::holds_alternative<workload::Benchmark>(workload);
}

bool is_timed(const Workload& workload) {
  return has_rounds(workload) || std::holds_alternative<Training>(workload);
}

std::string rounds_of(const Case& c) {
  if (c.source() != Source::measured) return "";  // a virtual clock says the same every time
  if (const auto* benchmark = std::get_if<workload::Benchmark>(&c.workload))
    return benchmark->rounds;
  return c.observes<workload::ModuleTime>() ? c.on : "";
}

std::unique_ptr<CaseRun> run_of_case(const Case& c, const Target& target, PeakRates& peaks,
                                     StepDone done) {
  using Made = std::unique_ptr<CaseRun>;
  return std::visit(ByKind{[&](const workload::ModuleMemory& w) -> Made {
                             return std::make_unique<ModuleMemoryRun>(c, w.module, target);
                           },
                           [&](const workload::ModuleTime& w) -> Made {
                             return std::make_unique<ModuleTimeRun>(c, w.module, target, peaks);
                           },
                           [&](const workload::StepMemory&) -> Made {
                             return std::make_unique<StepMemoryRun>(target);
                           },
                           [&](const workload::LongestSequence& w) -> Made {
                             return std::make_unique<LongestSequenceRun>(c, w.optimizer, target);
                           },
                           [&](const workload::Benchmark& w) -> Made { return w.make(target); },
                           [&](const Training& training) -> Made {
                             return std::make_unique<TrainingCaseRun>(c, training, target, peaks,
                                                                      std::move(done));
                           }},
                    c.workload);
}

}  // namespace frugal::harness
