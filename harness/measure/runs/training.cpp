#include "harness/measure/runs/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/checkpoint/gather.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_weights.h"
#include "engine/options/fields.h"
#include "engine/schedule/schedules.h"
#include "engine/train/trainer.h"
#include "harness/huggingface/hugging_face_config.h"
#include "harness/measure/flops.h"
#include "harness/measure/guarded.h"
#include "harness/measure/runs/last_words.h"
#include "harness/measure/runs/lone_stages.h"
#include "harness/measure/runs/training_checkpoint.h"
#include "harness/place/processes.h"

namespace frugal::harness {
namespace {

std::string outcome(const StepResult& result, const Target& target) {
  if (target.simulated()) return fmt::format("{:.4g} virtual s", result.seconds);
  if (!target.computes()) return fmt::format("{:.3g} s", result.seconds);
  return fmt::format("loss {:.4f}, {:.3g} s", result.loss, result.seconds);
}

/// What one rank has taken.
struct RankMemory {
  int64_t peak_total, host_peak, reserved;
  bool is_reserved;  ///< otherwise memory is only counted
  BytesPerKind peak;
  bool first_of_stage;
  StageMemory stage;
};

RankMemory memory_of(const Rank& rank) {
  const Ledger& ledger = rank.ledger;
  const std::optional<int64_t> reserved = reserved_by(rank.device);
  return {.peak_total = ledger.peak(),
          .host_peak = rank.host.peak(),
          .reserved = reserved.value_or(0),
          .is_reserved = reserved.has_value(),
          .peak = ledger.peak_per_kind(),
          .first_of_stage = rank.first_of_stage(),
          .stage = {.at_peak = ledger.at_peak(),
                    .peak = ledger.peak(),
                    .peak_per_kind = ledger.peak_per_kind(),
                    .peak_in_layers = ledger.peak_in_layers(),
                    .held = ledger.current_per_kind(),
                    .kept = ledger.kept_per_part().value_or(HeldPerPart{})}};
}

/// Steps from `step` on that are trained in one go. A schedule without a flush runs through many,
/// and so does one whose stages begin the next batch before a step is validated; it drains where a
/// held-out loss is wanted, and now and then so that an interrupt is seen.
int64_t steps_at_once(const TrainingRun& run, int64_t step) {
  constexpr int64_t most = 64;
  if (run.own) return run.own->schedule.batches;
  if (run.config.schedule.flushes && !run.config.validates_later()) return 1;
  const RunConfig& c = run.config;
  const int64_t passes = c.microbatches * c.pipeline_parallel * c.chunks;  // of a step
  const int64_t left = std::min(run.train.steps - step, std::max<int64_t>(most_passes / passes, 1));
  const int64_t until_evaluation =
      run.text && run.eval_every > 0 ? run.eval_every - step % run.eval_every : left;
  return std::min({left, until_evaluation, steps_to_checkpoint(run, step), most});
}

/// The model in the words of tests/golden/pytorch_gpt.py, or where it has Hugging Face's names, in
/// those of its library: "config", as config.json has it.
safetensors::Metadata metadata_of(const ModelConfig& m) {
  if (naming_of(m) == Naming::hugging_face) return {{"config", to_hugging_face(m).dump()}};
  return {{"hidden", std::to_string(m.hidden)},         {"heads", std::to_string(m.heads)},
          {"layers", std::to_string(m.layers)},         {"sequence", std::to_string(m.sequence)},
          {"vocabulary", std::to_string(m.vocabulary)}, {"causal", m.causal ? "true" : "false"}};
}

/// What a script of tests/golden/ needs to compute the same.
void save_tensors(Trainer& trainer, const TrainingRun& run, const Target& target) {
  const ModelConfig& m = run.config.model;
  safetensors::File file{
      in_stored_names(
          m, trainer.snapshot(training_batch(run, run.config, target, run.train.steps).front())),
      metadata_of(m)};
  file.metadata["micro_batch"] = std::to_string(run.config.micro_batch);
  if (Processes::writes()) safetensors::write(run.save_tensors, file);
}

void save_weights(Trainer& trainer, const TrainingRun& run) {
  std::optional<StoredWeightsWriter> writer;
  if (Processes::writes())
    writer.emplace(run.save_weights, run.config.model, run.config.type,
                   metadata_of(run.config.model));
  trainer.each_weight([&](const std::string& name, const HostTensor& weight) {
    if (writer) writer->write(name, weight);
  });
  if (writer) writer->close();
}

void tell_last_words(Trainer& trainer, const TrainingRun& run, Record& record) {
  const LastWords words(*run.text, run.config, run.last_words);
  const LastWords::Told told = words.evaluate(trainer);
  record.add_sample(metric::last_word_accuracy, "1",
                    static_cast<double>(told.words) / static_cast<double>(words.passages()));
  record.add_sample(metric::last_letter_accuracy, "1",
                    static_cast<double>(told.letters) / static_cast<double>(words.letters()));
}

/// Samples of a step of each rank.
void add_times(std::vector<RankSamples>& ranks, const std::vector<RankTime>& times) {
  ranks.resize(times.size());
  for (size_t r = 0; r < times.size(); ++r) {
    ranks[r].stage = times[r].stage;
    ranks[r].steps.push_back(times[r].seconds);
    ranks[r].waiting.push_back(times[r].waited);
  }
}

/// Whether the held-out loss is wanted when so many steps were made.
bool is_evaluated(const TrainingRun& run, int64_t step) {
  return step == run.train.steps || (run.eval_every > 0 && step % run.eval_every == 0);
}

}  // namespace

Batch training_batch(const TrainingRun& run, const RunConfig& config, const Target& target,
                     int64_t step) {
  if (target.simulated()) return Batch(static_cast<size_t>(config.batch_microbatches()));
  return run.text ? run.text->training_batch(step) : random_batch(config, step);
}

Memory memory_of(Cluster& cluster) {
  std::vector<RankMemory> here;
  for (int i = 0; i < cluster.local_ranks(); ++i) here.push_back(memory_of(cluster.rank(i)));
  const std::vector<RankMemory> ranks = gather_all(cluster, here);
  Memory memory;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankMemory& rank = ranks[i];
    if (i == 0 || rank.peak_total > memory.peak_total) {
      memory.peak = rank.peak;
      memory.peak_total = rank.peak_total;
    }
    if (rank.is_reserved) memory.reserved = std::max(memory.reserved.value_or(0), rank.reserved);
    memory.host_peak = std::max(memory.host_peak, rank.host_peak);
    if (rank.first_of_stage) memory.stages.push_back(rank.stage);
  }
  return memory;
}

void warm_up(Trainer& trainer, const TrainingRun& run, const Target& target) {
  if (target.simulated()) return;
  Batch batch = training_batch(run, run.config, target, 0);
  // An order of the user's own may keep fewer on their way than any other.
  if (run.own) batch.resize(1);
  trainer.warm_up(batch);
}

void train_steps(Trainer& trainer, const TrainingRun& run, const Target& target,
                 const StepDone& done, const StepsTaken& taken, int64_t first_step,
                 const std::function<void(int64_t step)>& before) {
  for (int64_t step = first_step; step < run.train.steps;) {
    before(step);
    std::vector<Batch> batches;
    for (int64_t i = 0; i < steps_at_once(run, step); ++i)
      batches.push_back(training_batch(run, run.config, target, step + i));
    const std::vector<StepResult> results =
        run.own ? trainer.run(batches, moved_to(run.own->schedule, static_cast<int>(step)))
                : trainer.run(batches);
    const int64_t first = step;
    for (const StepResult& result : results) done(++step, outcome(result, target));
    taken(first, results);
  }
}

std::vector<TimeWindow> train(const TrainingRun& run, const Target& target, Record& record,
                              const StepDone& done) {
  stop_if_interrupted();
  if (target.links() != nullptr && run.config.pipeline_parallel > 1)
    return train_lone_stages(run, target, record, done);
  // Files first: what is wrong with them is said before anything is computed.
  std::optional<TrainingCheckpoints> checkpoints;
  if (!run.checkpoint.empty()) checkpoints.emplace(run);
  std::optional<TrainingCheckpoint> from;
  if (!run.resume.empty()) from = find_checkpoint(run);
  const int64_t first = from ? from->step : 0;
  const auto cluster = target.cluster(run.config);
  Trainer trainer(*cluster, run.config, run.train);
  if (run.weights)
    trainer.load_weights([&](const std::string& name) { return run.weights->weight(name); });
  if (from) resume(*from, trainer, record);
  double executed = 0;
  std::vector<RankSamples> ranks;
  // The first step fills caches and makes the library's kernels: it is timed only where it is warm.
  const bool warm = target.simulated() || run.train.steps - first == 1;
  if (warm) warm_up(trainer, run, target);
  const StopsAtSafePoints between_steps(checkpoints.has_value());
  TimedSteps timed(warm);
  train_steps(
      trainer, run, target, done,
      [&](int64_t step, const std::vector<StepResult>& results) {
        if (step > first || warm) add_times(ranks, trainer.rank_times());
        timed.took(results.size());
        for (const StepResult& result : results) {
          executed = result.flops;
          if (step > first || warm) record.add_sample(metric::step_time, "s", result.seconds);
          ++step;
          if (!target.computes()) continue;
          record.losses.push_back(result.loss);
          if (std::isfinite(result.gradient_norm))
            record.add_sample(metric::gradient_norm, "1", result.gradient_norm);
        }
        if (run.text && target.computes() && is_evaluated(run, step))
          record.held_out.emplace_back(step,
                                       trainer.evaluate(run.text->held_out_batch(
                                           run.text->held_out_microbatches(held_out_tokens))));
        if (checkpoints && checkpoints->due(step))
          checkpoints->write(trainer, *cluster, record, step);
      },
      first,
      [&](int64_t step) {
        if (checkpoints && step > first)
          checkpoints->stop_if_interrupted(trainer, *cluster, record, step);
        else
          stop_if_interrupted();
      });
  record.memory = memory_of(*cluster);
  record.flops = flops_of(run.config, executed);
  record.work = trainer.work();
  if (!ranks.empty()) record.ranks = rank_statistics(ranks);
  if (run.last_words > 0) tell_last_words(trainer, run, record);
  if (!run.save_tensors.empty()) save_tensors(trainer, run, target);
  if (!run.save_weights.empty()) save_weights(trainer, run);
  return {timed.window()};
}

Flops flops_of(const RunConfig& config, double executed) {
  const auto sequences = static_cast<double>(config.micro_batch * config.batch_microbatches());
  Flops flops{
      model_flops(config.model, sequences), model_formula(config.model), executed, "executed", {}};
  const bool as_printed =
      config.recomputes_cores_alone() && config.attention == AttentionKind::separate;
  if (as_printed && flops.model_formula == eq7_id)
    flops.hardware_eq8 = hardware_flops_eq8(config.model, sequences);
  return flops;
}

OptimizerOptions default_optimizer(const RunConfig& config) {
  OptimizerOptions options;
  if (config.step_in_backward) options.clip = 0;
  return options;
}

namespace {

/// Texts of the members that a record has, by key.
template <class Options>
std::map<std::string, std::string> texts_of(const Options& options) {
  std::map<std::string, std::string> texts;
  for (const engine::Field<Options>& field : fields_of<Options>())
    if (field.is_written ? field.is_written(options) : field.always || !field.is_usual(options))
      texts[field.key] = engine::text_of(field.get(options));
  return texts;
}

}  // namespace

std::map<std::string, std::string> options_of(const Training& run, const RunConfig& config) {
  std::map<std::string, std::string> options = texts_of(run.train);
  options.merge(texts_of(run.train.optimizer));
  options["eval_every"] = std::to_string(run.eval_every);
  if (run.last_words > 0) options["last_words"] = std::to_string(run.last_words);
  if (run.checkpoint_every > 0) options["checkpoint_every"] = std::to_string(run.checkpoint_every);
  if (!run.resume.empty()) options["resumed"] = "yes";
  if (run.own) options["schedule_file"] = "hash " + hash_of(run.own->text);
  if (run.weights) options["weights"] = "hash " + hash_of_files(run.weights->files().paths());
  if (run.text) {
    const Text& text = *run.text;
    options["text"] =
        fmt::format("{}, hash {}, {} training bytes, {} held out", run.text_name,
                    hash_of(text.bytes()), text.training_bytes(), text.held_out_bytes());
    options["held_out_bytes_evaluated"] = std::to_string(
        text.held_out_microbatches(held_out_tokens) * config.micro_batch * config.model.sequence);
  }
  return options;
}

int64_t steps_to_settle(const RunConfig& config) {
  if (!config.schedule.flushes) return int64_t{2} * config.pipeline_parallel;
  return config.program.steps_to_settle();
}

StepTaken take_step(Cluster& cluster, const RunConfig& config, const OptimizerOptions& optimizer) {
  Trainer trainer(cluster, config, {.optimizer = optimizer});
  const int64_t steps = steps_to_settle(config);
  std::vector<Batch> batches(static_cast<size_t>(steps),
                             Batch(static_cast<size_t>(config.batch_microbatches())));
  if (cluster.rank(0).device.backed())
    for (int64_t step = 0; step < steps; ++step)
      batches[static_cast<size_t>(step)] = random_batch(config, step);
  const std::vector<StepResult> results = trainer.run(batches);
  return {memory_of(cluster), results.back().flops, results[results.size() / 2].seconds};
}

void observe_step_memory(const Target& target, Record& record) {
  const RunConfig& config = record.config;
  if (target.links() != nullptr && config.pipeline_parallel > 1)
    return observe_lone_stages(target, record);
  const auto cluster = target.simulated()
                           ? target.cluster_with(config, std::numeric_limits<int64_t>::max())
                           : target.cluster(config);
  const StepTaken taken = take_step(*cluster, config, default_optimizer(config));
  record.memory = taken.memory;
  record.flops = flops_of(config, taken.flops);
}

}  // namespace frugal::harness
