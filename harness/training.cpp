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
  if (target.simulated()) return Batch(static_cast<size_t>(run.config.microbatches));
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
  const auto sequences = static_cast<double>(config.micro_batch * config.microbatches);
  Flops flops{model_flops_eq7(config.model, sequences), eq7_id, executed, "executed", {}};
  if (config.recompute == Recompute::selective)
    flops.hardware_eq8 = hardware_flops_eq8(config.model, sequences);
  return flops;
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
  for (int64_t step = 0; step < run.train.steps; ++step) {
    stop_if_interrupted();
    const StepResult result = trainer.step(batch_of(run, target, step));
    executed = result.flops;
    if (step > 0 || warm) record.add_sample(metric::step_time, "s", result.seconds);
    if (losses_count(target)) {
      record.losses.push_back(result.loss);
      record.add_sample(metric::gradient_norm, "1", result.gradient_norm);
    }
    const bool last = step + 1 == run.train.steps;
    if (run.text && losses_count(target) &&
        (last || (run.eval_every > 0 && (step + 1) % run.eval_every == 0)))
      record.held_out.emplace_back(step + 1,
                                   trainer.evaluate(run.text->held_out_batch(
                                       run.text->held_out_microbatches(held_out_tokens))));
    progress.finished(fmt::format("step {}", step + 1), outcome(result, target));
  }
  const Rank& rank = cluster->rank(0);
  record.memory = {std::nullopt, rank.ledger.peak_per_kind(), rank.ledger.peak(),
                   reserved_by(rank.device)};
  record.flops = flops_of(run.config, executed);
  if (!run.save_tensors.empty()) save(trainer, run, target);
}

}  // namespace

void run_training(const TrainingRun& run, Target& target, Record& record, Progress& progress) {
  run_guarded(record, [&] {
    train(run, target, record, progress);
    record.utilization =
        utilization(*record.flops, median(record.samples(metric::step_time)), target, run.config);
  });
}

}  // namespace frugal
