#include "harness/training.h"

#include <fmt/format.h>

#include "engine/train/safetensors.h"
#include "harness/flops.h"
#include "harness/interrupt.h"
#include "harness/runner.h"

namespace frugal {
namespace {

/// Without tokens on a virtual device, which would not read them.
Batch batch_of(const TrainingRun& run, const Target& target, int64_t step) {
  if (target.simulated()) return Batch(static_cast<size_t>(run.config.batch_microbatches()));
  return run.text ? run.text->training_batch(step) : random_batch(run.config, step);
}

/// Whether the losses are those of the whole model.
bool losses_count(const Target& target) { return !target.simulated() && !target.modelled(); }

std::string outcome(const StepResult& result, const Target& target) {
  if (target.simulated()) return fmt::format("{:.4g} virtual s", result.seconds);
  if (!losses_count(target)) return fmt::format("{:.3g} s", result.seconds);
  return fmt::format("loss {:.4f}, {:.3g} s", result.loss, result.seconds);
}

Flops flops_of(const RunConfig& config, double executed) {
  const auto sequences = static_cast<double>(config.micro_batch * config.batch_microbatches());
  Flops flops{model_flops_eq7(config.model, sequences), eq7_id, executed, "executed", {}};
  if (config.recompute == Recompute::selective)
    flops.hardware_eq8 = hardware_flops_eq8(config.model, sequences);
  return flops;
}

/// Of the rank with the highest peak, and of every stage.
Memory memory_of(Cluster& cluster) {
  Memory memory;
  for (int i = 0; i < cluster.local_ranks(); ++i) {
    const Rank& rank = cluster.rank(i);
    const Ledger& ledger = rank.ledger;
    if (i == 0 || ledger.peak() > memory.peak_total) {
      memory.peak = ledger.peak_per_kind();
      memory.peak_total = ledger.peak();
      memory.reserved = reserved_by(rank.device);
    }
    if (rank.replica() == 0 && rank.tensor_group.rank() == 0)
      memory.stages.push_back({.at_peak = ledger.at_peak(),
                               .peak = ledger.peak(),
                               .peak_per_kind = ledger.peak_per_kind(),
                               .peak_in_layers = ledger.peak_in_layers()});
  }
  return memory;
}

/// Steps from `step` on that are trained in one go. A schedule without a flush runs through many;
/// it drains where a held-out loss is wanted, and now and then so that an interrupt is seen.
int64_t steps_at_once(const TrainingRun& run, int64_t step) {
  constexpr int64_t most = 64;
  if (flushes(run.config.schedule)) return 1;
  const int64_t left = run.train.steps - step;
  const int64_t until_evaluation =
      run.text && run.eval_every > 0 ? run.eval_every - step % run.eval_every : left;
  return std::min({left, until_evaluation, most});
}

/// What tests/golden/pytorch_gpt.py needs to compute the same.
void save(Trainer& trainer, const TrainingRun& run, const Target& target) {
  const ModelConfig& m = run.config.model;
  safetensors::File file;
  file.tensors = trainer.snapshot(batch_of(run, target, run.train.steps).front());
  file.metadata = {{"hidden", std::to_string(m.hidden)},
                   {"heads", std::to_string(m.heads)},
                   {"layers", std::to_string(m.layers)},
                   {"sequence", std::to_string(m.sequence)},
                   {"micro_batch", std::to_string(run.config.micro_batch)},
                   {"vocabulary", std::to_string(m.vocabulary)},
                   {"causal", m.causal ? "true" : "false"}};
  safetensors::write(run.save_tensors, file);
}

/// All steps. Leaves no cluster behind: what is timed afterwards has the device for itself.
void train(const TrainingRun& run, Target& target, Record& record, Progress& progress) {
  stop_if_interrupted();
  const auto cluster = target.cluster(run.config);
  Trainer trainer(*cluster, run.config, run.train);
  double executed = 0;
  // The first step fills caches and makes the library's kernels: it is timed only where it is warm.
  const bool warm = target.simulated() || run.train.steps == 1;
  if (warm && !target.simulated()) trainer.warm_up(batch_of(run, target, 0));
  for (int64_t step = 0; step < run.train.steps;) {
    stop_if_interrupted();
    std::vector<Batch> batches;
    for (int64_t i = 0; i < steps_at_once(run, step); ++i)
      batches.push_back(batch_of(run, target, step + i));
    for (const StepResult& result : trainer.run(batches)) {
      executed = result.flops;
      if (step > 0 || warm) record.add_sample(metric::step_time, "s", result.seconds);
      if (losses_count(target)) {
        record.losses.push_back(result.loss);
        record.add_sample(metric::gradient_norm, "1", result.gradient_norm);
      }
      ++step;
      progress.finished(fmt::format("step {}", step), outcome(result, target));
    }
    if (run.text && losses_count(target) &&
        (step == run.train.steps || (run.eval_every > 0 && step % run.eval_every == 0)))
      record.held_out.emplace_back(step, trainer.evaluate(run.text->held_out_batch(
                                             run.text->held_out_microbatches(held_out_tokens))));
  }
  record.memory = memory_of(*cluster);
  record.flops = flops_of(run.config, executed);
  if (!run.save_tensors.empty()) save(trainer, run, target);
}

}  // namespace

void observe_step_memory(const Target& target, Record& record) {
  const RunConfig& config = record.config;
  const auto cluster = target.cluster_without_limit(config);
  Trainer trainer(*cluster, config, {});
  const int steps = flushes(config.schedule) ? 1 : 2 * config.pipeline_parallel;
  const auto results = trainer.run(std::vector<Batch>(
      static_cast<size_t>(steps), Batch(static_cast<size_t>(config.batch_microbatches()))));
  record.memory = memory_of(*cluster);
  record.flops = flops_of(config, results.back().flops);
}

void run_training(const TrainingRun& run, Target& target, Record& record, Progress& progress) {
  run_guarded(record, [&] {
    train(run, target, record, progress);
    record.utilization =
        utilization(*record.flops, median(record.samples(metric::step_time)), target, run.config);
  });
}

}  // namespace frugal
