// Is the planner's first choice the fastest? In each case every configuration that fits and that it
// predicts to take at most half as long again as its first choice (of thousands some) is executed
// on the virtual machine, all stages together, and compared.
#include <fmt/format.h>

#include <set>
#include <tuple>

#include "bench/benchmarks.h"
#include "bench/numbers.h"
#include "engine/plan/execute.h"
#include "engine/plan/search.h"
#include "engine/program/find_program.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"
#include "harness/report/commands/plan_report.h"
#include "harness/settings/models.h"

namespace frugal::bench {
namespace {

struct PlannedCase {
  const char* model;
  const char* devices;
  const char* batch;
  const char* schedule;  // or `searched`: all that the planner may search
  const char* machine;
  std::vector<int> tensor = {1};

  bool searches_all() const { return std::string_view(schedule) == searched; }
  static constexpr const char* searched = "searched";
};

constexpr const char *v100 = "v100-p3-16xlarge", *a100 = "a100-selene", *h100 = "h100-dgx",
                     *h200 = "h200-hgx", *b200 = "b200-dgx";

/// The models of pipedream2bw2021 on its machine, the smallest of korthikanti2022 on its own, and a
/// small one; with the kernels and messages of the papers' programs. Besides, models of the papers
/// and of today with all techniques.
const std::vector<PlannedCase>& planned_cases() {
  static constexpr const char* all_of_it = PlannedCase::searched;
  static const std::vector<int> up_to_8 = {1, 2, 4, 8}, up_to_4 = {1, 2, 4};
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
                                               {"gpt2-124m", "8", "32", "1f1b", a100},
                                               {"gpt-1.3b", "16", "64", all_of_it, a100},
                                               {"gpt-2.2b", "16", "64", all_of_it, a100, up_to_8},
                                               {"gpt-3.8b", "32", "128", all_of_it, a100, up_to_8},
                                               {"22B", "16", "32", all_of_it, a100, up_to_8},
                                               {"22B", "32", "32", all_of_it, h100, up_to_8},
                                               {"llama2-7b", "8", "32", all_of_it, h100, up_to_8},
                                               {"llama2-7b", "16", "64", all_of_it, h200, up_to_8},
                                               {"llama3-8b", "8", "64", all_of_it, h100, up_to_8},
                                               {"llama3-8b", "16", "32", all_of_it, h100, up_to_8},
                                               {"llama3-8b", "32", "128", all_of_it, h100, up_to_8},
                                               {"llama3-8b", "64", "64", all_of_it, b200, up_to_8},
                                               {"mistral-7b", "16", "64", all_of_it, h200, up_to_8},
                                               {"qwen2-7b", "16", "32", all_of_it, h100, up_to_4},
                                               {"175B", "64", "64", all_of_it, h200, up_to_8},
                                               {"gpt-28.3b", "32", "64", all_of_it, h100, up_to_8}};
  return all;
}

PlanRequest request_of(const PlannedCase& c, const Machine& machine) {
  PlanRequest request;
  request.run.model = find_model(c.model);
  request.run.type = DType::bf16;
  request.devices = std::stoi(c.devices);
  if (c.searches_all()) {
    request.run.attention = AttentionKind::fused;
    request.run.sequence_parallel = true;
    request.search_all();
  } else {
    request.schedules = {schedule_kind(c.schedule).value()};
    request.run.program = find_program(c.machine == v100 ? "pipedream-2bw-2021:time:messages"
                                                         : "megatron-lm-2022:time:messages");
  }
  request.machine = machine;
  request.memory = machine.memory_capacity;
  request.batch = std::stoll(c.batch);
  request.tensor = c.tensor;
  request.within = 1.5;
  return request;
}

/// Which of a plan's configurations are executed: all that it keeps. Of thousands, the first fifty,
/// and the first of each kind of technique, since a wrong prediction would be wrong of a kind.
std::vector<const Candidate*> to_execute(const Plan& plan) {
  constexpr size_t first = 50;
  std::vector<const Candidate*> chosen;
  std::set<std::tuple<std::string_view, Recompute, bool, bool, bool, Shard, bool, int>> kinds;
  for (const Candidate& c : plan.fitting) {
    const bool is_new =
        kinds
            .emplace(c.run.schedule.name, c.run.recompute, c.run.recompute_layers > 0,
                     c.run.offload, c.run.validates_later(), c.run.shard,
                     c.run.stage_layers.empty(),
                     c.run.context_parallel > 1 ? 1 + static_cast<int>(c.run.context) : 0)
            .second;
    if (chosen.size() < first || is_new) chosen.push_back(&c);
  }
  return chosen;
}

/// Plans, executes what may be the fastest, and compares.
class PlanRun final : public CaseRun {
 public:
  PlanRun(const PlannedCase& planned, const Target& target)
      : request_(request_of(planned, target.machine().value())) {}

  void observe(Record& record) override {
    const Plan plan = search(request_);
    for (const Candidate* candidate : to_execute(plan)) {
      stop_if_interrupted();
      add(*candidate);
    }
    executed_.add_to(record, plan.compared());
  }

 private:
  void add(const Candidate& c) {
    const Execution done = execute_plan(c.run, planned_optimizer(c.run.schedule), request_.machine);
    ExecutedPlan::Cost predicted{.seconds = c.prediction.seconds, .memory = {}};
    for (const auto& stage : c.prediction.stages) predicted.memory.push_back(stage.memory);
    executed_.add(configuration_name(c.run), predicted, {done.seconds, done.memory});
  }

  const PlanRequest request_;
  ExecutedPlan executed_;
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
  const auto count = [&](const char* slower_by, double at_most) {
    int right = 0;
    for (const Record& record : records)
      for (const double slower : record.samples(slower_by)) right += slower <= at_most ? 1 : 0;
    return right;
  };
  const auto total = static_cast<int>(records.size());
  return {
      fmt::format("the first choice is the best executed in {} of {} cases, and within 1 % of "
                  "it in {}, within 5 % in {}",
                  count("slower_by", 0), total, count("slower_by", 0.01), count("slower_by", 0.05)),
      fmt::format("with --execute 10 it is the best executed in {} of {} cases",
                  count("settled_slower_by", 0), total)};
}

}  // namespace

const Benchmark& plan() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "plan",
      .title = "The planner's first choice against what it could have chosen, on virtual machines",
      .axes = {{"model",
                {"gpt-355m", "gpt-1.3b", "gpt-2.2b", "gpt-3.8b", "gpt-28.3b", "22B", "175B",
                 "gpt2-124m", "llama2-7b", "llama3-8b", "mistral-7b", "qwen2-7b"}},
               {"devices", {"8", "16", "32", "64"}},
               {"batch", {"32", "64", "128", "256", "512"}},
               {"schedule", {"2bw", "1f1b", "gpipe", PlannedCase::searched}}},
      .at = planned_case,
      .columns = {{"first choice", "first choice", Shows::finding},
                  {"considered", "configurations"},
                  {"executed", "executed"},
                  {"best executed", "best executed", Shows::finding},
                  {"slower by, %", "slower_by", Shows::value, 1e-2},
                  {"with --execute 10, %", "settled_slower_by", Shows::value, 1e-2},
                  {"largest error of time, %", "largest_time_error", Shows::value, 1e-2},
                  {"of memory, bytes", "largest_memory_error"}},
      .summary = how_often_right};
  return benchmark;
}

}  // namespace frugal::bench
