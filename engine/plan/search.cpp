#include "engine/plan/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    all.push_back(i);
    if (i != n / i) all.push_back(n / i);
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// "a, b or c"
std::string either_of(std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

/// The costs of parts, executed once for all depths and widths.
class Costs {
 public:
  explicit Costs(const Machine& machine) : machine_(machine) {}

  const PartCosts& of(const RunConfig& run) {
    const Key key{run.tensor_parallel, run.micro_batch, run.recompute, run.schedule.name};
    const auto found = costs_.find(key);
    if (found != costs_.end()) return found->second;
    return costs_.emplace(key, PartCosts(run, planned_optimizer(run.schedule), machine_))
        .first->second;
  }

 private:
  using Key = std::tuple<int, int64_t, Recompute, std::string_view>;  // of the schedule
  const Machine& machine_;
  std::map<Key, PartCosts> costs_;
};

class Search {
 public:
  explicit Search(const PlanRequest& request) : request_(request), costs_(request.machine) {}

  Plan run() {
    for (const int tensor : request_.tensor) {
      if (request_.devices % tensor != 0) continue;
      const int64_t devices = request_.devices / tensor;
      for (const int64_t depth : divisors(devices))
        if (request_.run.model.layers % depth == 0) shape(tensor, depth, devices / depth);
    }
    const auto faster = [](const Candidate& a, const Candidate& b) {
      return a.prediction.seconds < b.prediction.seconds;
    };
    std::stable_sort(plan_.fitting.begin(), plan_.fitting.end(), faster);
    std::stable_sort(plan_.too_large.begin(), plan_.too_large.end(), faster);
    return std::move(plan_);
  }

 private:
  /// All microbatch sizes of these t, d and w.
  void shape(int tensor, int64_t depth, int64_t width) {
    if (request_.batch % width != 0) return;
    const int64_t sequences = request_.batch / width;  // of a pipeline
    RunConfig run = request_.run;
    run.tensor_parallel = tensor;
    run.pipeline_parallel = static_cast<int>(depth);
    run.data_parallel = static_cast<int>(width);
    // A pipeline of one stage has no bubble that a second version of its weights could fill.
    if (depth == 1) run.schedule = ScheduleKind::one_forward_one_backward;
    const Links links(run, request_.machine);
    for (const int64_t micro_batch : divisors(sequences)) {
      run.micro_batch = micro_batch;
      run.microbatches = sequences / micro_batch;
      if (run.microbatches % depth != 0 || micro_batch > RunConfig::most_sequences ||
          run.microbatches > RunConfig::most_sequences || run.microbatches > most_passes / depth) {
        plan_.not_filling += static_cast<int64_t>(request_.recompute.size());
        continue;
      }
      for (const Recompute recompute : request_.recompute) {
        run.recompute = recompute;
        consider(run, links);
      }
    }
  }

  void consider(const RunConfig& run, const Links& links) {
    run.validate();
    Candidate candidate{run, predict(run, costs_.of(run), links, request_.machine), 0};
    candidate.missing = std::max<int64_t>(candidate.prediction.memory() - request_.memory, 0);
    (candidate.fits() ? plan_.fitting : plan_.too_large).push_back(std::move(candidate));
  }

  const PlanRequest& request_;
  Costs costs_;
  Plan plan_;
};

}  // namespace

void PlanRequest::validate() const {
  require_able(machine, devices, run.type);
  if (!run.schedule.predicted)
    throw InputError(fmt::format("--schedule is {}, of which there is no prediction; give {}",
                                 run.schedule.name,
                                 either_of(ScheduleKind::names(&ScheduleKind::predicted))));
  // b · w · d · g = B and w · d · t = N: for some t, B is a multiple of N / t.
  const auto works = [this](int tensor) {
    return devices % tensor == 0 && batch % (devices / tensor) == 0;
  };
  if (std::none_of(tensor.begin(), tensor.end(), [this](int t) { return devices % t == 0; }))
    throw InputError(fmt::format(
        "--devices is {}, which --tensor-parallel ({}) does not divide; give a multiple of it",
        devices, tensor.front()));
  if (std::any_of(tensor.begin(), tensor.end(), works)) return;
  const int pipelines = devices / tensor.back();
  const int64_t below = batch / pipelines * pipelines;
  throw InputError(fmt::format(
      "--batch is {}, and no b x w x d x g is that with w x d = {} (--devices {}{}); give a "
      "multiple of {}, such as {}",
      batch, pipelines, devices,
      tensor.back() > 1 ? fmt::format(", {} to a stage", tensor.back()) : "", pipelines,
      std::max<int64_t>(below, pipelines)));
}

Plan search(const PlanRequest& request) {
  request.validate();
  Plan plan = Search(request).run();
  if (plan.fitting.empty() && plan.too_large.empty())
    throw InputError(fmt::format(
        "--devices is {}, and no depth that divides it and the model's {} layers leaves w, b and g "
        "with b x w x d x g = {} (--batch); choose another number of devices or batch",
        request.devices, request.run.model.layers, request.batch));
  return plan;
}

}  // namespace frugal::engine
