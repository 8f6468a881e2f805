#pragma once
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "engine/plan/part_cost.h"
#include "engine/plan/predict.h"
#include "engine/plan/run_costs.h"

namespace frugal::engine {

/// The costs of parts for all configurations of a search: executed once for all depths and, but for
/// what replicas divide, widths. Several threads may ask.
class PlanCosts {
 public:
  explicit PlanCosts(const Machine& machine) : machine_(machine) {}

  const PartCosts& of(const RunConfig& run) {
    const Key key{run.tensor_parallel,
                  run.context_parallel,
                  run.context,
                  run.micro_batch,
                  run.recompute,
                  run.recompute == Recompute::selective ? name_of(run.recompute_modules) : "",
                  run.recompute_layers,
                  run.offload ? name_of(run.offload_modules) : "",
                  run.schedule.splits_backward,
                  makes_together(run),
                  run.schedule.flushes ? "" : run.schedule.name,
                  run.validate_steps,
                  run.shard,
                  run.shard == Shard::none ? 1 : run.data_parallel};
    const std::scoped_lock lock(finding_);
    return costs_.try_emplace(key, run, planned_optimizer(run.schedule), machine_).first->second;
  }

 private:
  using Key = std::tuple<int, int, ContextKind, int64_t, Recompute, std::string, int64_t,
                         std::string, bool, bool, std::string_view, StepValidation, Shard, int>;
  const Machine& machine_;
  std::mutex finding_;  ///< guards what follows
  std::map<Key, PartCosts> costs_;
};

}  // namespace frugal::engine
