#include "engine/plan/execute.h"

#include <algorithm>
#include <utility>

#include "engine/train/trainer.h"

namespace frugal::engine {

Execution execute_plan(const RunConfig& run, const OptimizerOptions& optimizer,
                       const Machine& machine) {
  const auto cluster = make_virtual_cluster(run, without_limits(machine));
  TrainConfig train;
  train.optimizer = optimizer;
  Trainer trainer(*cluster, run, train);
  // The first batch has the fill, and the last one no passes of another between its own.
  const Batch empty(static_cast<size_t>(run.batch_microbatches()));
  const auto results = trainer.run(std::vector<Batch>(Execution::batches, empty));
  Execution done;
  done.seconds = (results[1].seconds + results[2].seconds) / 2;
  for (int i = 0; i < cluster->local_ranks(); ++i) {
    done.memory.push_back(cluster->rank(i).ledger.peak());
    done.on_host.push_back(cluster->rank(i).host.peak());
  }
  return done;
}

std::vector<Execution> settle(Plan& plan, const Machine& machine, size_t count) {
  count = std::min(count, plan.fitting.size());
  std::vector<std::pair<Execution, Candidate>> executed;
  for (size_t i = 0; i < count; ++i) {
    const RunConfig& run = plan.fitting[i].run;
    executed.emplace_back(execute_plan(run, planned_optimizer(run.schedule), machine),
                          plan.fitting[i]);
  }
  std::ranges::stable_sort(executed, {}, [](const auto& each) { return each.first.seconds; });
  std::vector<Execution> executions;
  for (size_t i = 0; i < count; ++i) {
    executions.push_back(std::move(executed[i].first));
    plan.fitting[i] = std::move(executed[i].second);
  }
  return executions;
}

}  // namespace frugal::engine
