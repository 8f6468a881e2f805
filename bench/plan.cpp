// Is the planner's first choice the fastest? In each case every configuration that fits and that it
// predicts to take at most half as long again as its first choice is executed on the virtual
// machine, all stages together, and compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/benchmarks.h"
#include "engine/plan/execute.h"
#include "engine/plan/search.h"
#include "engine/program/find_program.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"
#include "harness/settings/models.h"
#include "harness/settings/names.h"

namespace frugal::bench {
namespace {

struct PlannedCase {
  const char* model;
  const char* devices;
  const char* batch;
  const char* schedule;
  const char* machine;
  std::vector<int> tensor = {1};
};

constexpr const char *v100 = "v100-p3-16xlarge", *a100 = "a100-selene";

/// The models of pipedream2bw2021 on its machine, the smallest of korthikanti2022 on its own, and a
/// small one; with the kernels and messages of the papers' programs.
const std::vector<PlannedCase>& planned_cases() {
  static const std::vector<PlannedCase> all = {{"gpt-355m", "8", "64", "2bw", v100},
                                               {"gpt-355m", "64", "512", "2bw", v100},
                                               {"gpt-355m", "16", "128", "1f1b", v100},
                                               {"gpt-1.3b", "8", "64", "2bw", v100},
                                               {"gpt-1.3b", "32", "256", "2bw", v100},
                                               {"gpt-2.2b", "8", "64", "2bw", v100},
                                               {"gpt-2.2b", "64", "512", "2bw", v100},
                                               {"gpt-2.2b", "64", "512", "1f1b", v100},
                                               {"gpt-2.2b", "64", "512", "gpipe", v100},
                                               {"gpt-3.8b", "64", "512", "2bw", v100},
                                               {"gpt-3.8b", "64", "512", "1f1b", v100},
                                               {"22B", "32", "64", "2bw", a100, {1, 2, 4, 8}},
                                               {"22B", "64", "128", "1f1b", a100, {1, 2, 4, 8}},
                                               {"gpt2-124m", "16", "32", "2bw", v100},
                                               {"gpt2-124m", "8", "32", "1f1b", a100}};
  return all;
}

std::string shape_of(const RunConfig& run) {
  return fmt::format("t{} w{} d{} b{} m{} {}", run.tensor_parallel, run.data_parallel,
                     run.pipeline_parallel, run.micro_batch, run.microbatches,
                     name_of(run.recompute));
}

PlanRequest request_of(const PlannedCase& c, const Machine& machine) {
  PlanRequest request;
  request.run.model = find_model(c.model);
  request.run.schedule = from_name<ScheduleKind>(c.schedule).value();
  request.run.type = DType::bf16;
  request.run.program = find_program(c.machine == v100 ? "pipedream-2bw-2021:time:messages"
                                                       : "megatron-lm-2022:time:messages");
  request.machine = machine;
  request.memory = machine.memory_capacity;
  request.devices = std::stoi(c.devices);
  request.batch = std::stoll(c.batch);
  request.tensor = c.tensor;
  return request;
}

/// Plans, executes what may be the fastest, and compares.
class PlanRun final : public CaseRun {
 public:
  PlanRun(const PlannedCase& planned, const Target& target)
      : request_(request_of(planned, target.machine().value())) {}

  void observe(Record& record) override {
    const Plan plan = search(request_);
    const double within = 1.5 * plan.fitting.front().prediction.seconds;
    for (const Candidate& candidate : plan.fitting) {
      if (candidate.prediction.seconds > within) break;
      stop_if_interrupted();
      add(candidate);
    }
    record.findings["first choice"] = shape_of(plan.fitting.front().run);
    record.findings["best executed"] = best_shape_;
    record.add_sample("executed", "1", executed_);
    record.add_sample("first_choice_time", "s", first_);
    record.add_sample("best_executed_time", "s", best_);
    record.add_sample("slower_by", "1", first_ / best_ - 1);
    record.add_sample("largest_time_error", "1", error_);
    record.add_sample("largest_memory_error", "bytes", static_cast<double>(memory_));
  }

 private:
  void add(const Candidate& c) {
    const Execution done = execute_plan(c.run, planned_optimizer(c.run.schedule), request_.machine);
    if (executed_++ == 0) first_ = done.seconds;
    if (executed_ == 1 || done.seconds < best_) {
      best_ = done.seconds;
      best_shape_ = shape_of(c.run);
    }
    const double error = c.prediction.seconds / done.seconds - 1;
    if (std::abs(error) > std::abs(error_)) error_ = error;
    for (size_t i = 0; i < done.memory.size(); ++i)
      memory_ = std::max(memory_, std::abs(done.memory[i] - c.prediction.stages[i].memory));
  }

  const PlanRequest request_;
  int executed_ = 0;
  double first_ = 0, best_ = 0;  // seconds of a batch
  std::string best_shape_;
  double error_ = 0;    // of the predicted time, the largest
  int64_t memory_ = 0;  // of predicted bytes, the largest difference
};

std::optional<BenchmarkCase> planned_case(const Point& point) {
  BenchmarkCase found;
  for (const PlannedCase& c : planned_cases()) {
    if (point.at("model") != c.model || point.at("devices") != c.devices ||
        point.at("batch") != c.batch || point.at("schedule") != c.schedule)
      continue;
    found.make = [c](const Target& target) { return std::make_unique<PlanRun>(c, target); };
    found.on = fmt::format("virtual:{}", c.machine);
  }
  if (!found.make) return std::nullopt;
  return found;
}

std::vector<std::string> how_often_right(const std::vector<Record>& records) {
  int right = 0, total = 0;
  for (const Record& record : records)
    for (const double slower : record.samples("slower_by")) {
      ++total;
      right += slower <= 0.05 ? 1 : 0;
    }
  return {
      fmt::format("the first choice is the best executed, or within 5 % of it, in {} of {} cases",
                  right, total)};
}

}  // namespace

const Benchmark& plan() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "plan",
      .title = "The planner's first choice against what it could have chosen, on virtual machines",
      .axes = {{"model", {"gpt-355m", "gpt-1.3b", "gpt-2.2b", "gpt-3.8b", "22B", "gpt2-124m"}},
               {"devices", {"8", "16", "32", "64"}},
               {"batch", {"32", "64", "128", "256", "512"}},
               {"schedule", {"2bw", "1f1b", "gpipe"}}},
      .at = planned_case,
      .columns = {{"first choice", "first choice", Shows::finding},
                  {"executed", "executed"},
                  {"best executed", "best executed", Shows::finding},
                  {"slower by, %", "slower_by", Shows::value, 1e-2},
                  {"largest error of time, %", "largest_time_error", Shows::value, 1e-2},
                  {"of memory, bytes", "largest_memory_error"}},
      .summary = how_often_right};
  return benchmark;
}

}  // namespace frugal::bench
