#include "harness/settings/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/plan/lone_stage.h"
#include "engine/schedule/check.h"
#include "engine/schedule/text.h"
#include "harness/place/environment.h"
#include "harness/place/processes.h"
#include "harness/settings/field.h"
#include "harness/settings/paths.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// A data sheet of another machine would give a device an MFU that means nothing.
void check_data_sheet(const RunSettings& settings, const Target& target) {
  if (target.simulated() || settings.place.hardware.empty()) return;
  const bool gpu = target.kind() == DeviceKind::cuda;
  const std::vector<std::string> names = machine_names();
  const std::string& name = target.machine()->name;
  const std::vector<std::string>& devices = target.machine()->device_names;
  if (gpu && std::find(devices.begin(), devices.end(), gpus().front().name) != devices.end())
    return;
  if (std::find(names.begin(), names.end(), name) != names.end())
    throw InputError(fmt::format(
        "--hardware is \"{}\", the data sheet of {}, and --on is {}; give a machine "
        "file of this {}, or --on virtual:{}",
        file_name(settings.place.hardware), name, target.on(), gpu ? "GPU" : "processor", name));
}

/// What a pipeline cannot do of which one stage runs after the other, each without its neighbours.
void check_lone_stages(const RunSettings& settings, const RunConfig& config) {
  if (config.pipeline_parallel == 1) return;
  if (!settings.schedule_file.empty())
    throw InputError(
        "--lone-rank: the stages of a pipeline are put together in the order of a schedule that "
        "the program knows; leave it or --schedule-file out");
  if (const std::string why = why_not_lone_stages(config); !why.empty())
    throw InputError("--lone-rank: " + why);
}

/// What a run that is one rank without its peers cannot do.
void check_lone_rank(const RunSettings& settings, const RunConfig& config) {
  if (settings.place.lone_rank.empty()) return;
  if (config.tensor_parallel == 1 && config.context_parallel == 1 && config.pipeline_parallel == 1)
    throw InputError(
        "--lone-rank: a run with a tensor-parallel, a context-parallel and a pipeline-parallel "
        "size of 1 has no other ranks; leave it out, or give --tensor-parallel, --context-parallel "
        "or --pipeline-parallel");
  check_lone_stages(settings, config);
  if (!settings.text.empty())
    throw InputError(
        "--text: one rank without its peers has no losses that mean anything; leave it or "
        "--lone-rank out");
}

/// The schedule of --schedule-file; none without one.
std::optional<OwnSchedule> own_schedule(const RunSettings& settings) {
  if (settings.schedule_file.empty()) return std::nullopt;
  std::vector<std::pair<std::string, bool>> given;
  for (const char* key : {"schedule", "pipeline_parallel_size", "chunks", "microbatches"})
    given.emplace_back(field_of(key).flag, settings.is_given(key));
  refuse_beside_file("--schedule-file", given);
  std::string text = read_text(settings.schedule_file);
  Schedule schedule = schedule_from_text(text, settings.schedule_file);
  return OwnSchedule{std::move(schedule), std::move(text)};
}

/// Throws InputError where a schedule is wrong, begins later than a run does, or does not fit so
/// many steps: before anything is run. `file` is what messages call it.
void check_own(const OwnSchedule& own, const std::string& file, DeviceKind kind, int64_t steps) {
  const Schedule& schedule = own.schedule;
  // A message between GPUs lasts until it is received; elsewhere it is kept for its receiver.
  require_valid(schedule, file, kind == DeviceKind::cuda ? 0 : 1);
  if (schedule.first_batch > 0)
    throw InputError(
        fmt::format("{}: first-batch is {}, and a run begins with batch 0; write the schedule of "
                    "batches from 0 on (--first-batch 0)",
                    file, schedule.first_batch));
  if (steps % schedule.batches != 0)
    throw InputError(fmt::format(
        "--steps is {}, and the schedule of {} is of {} batches; give a multiple of {}, or write "
        "the schedule of as many batches as there are steps",
        steps, file, schedule.batches, schedule.batches));
}

/// All in the weights' type, where there is a choice.
void check_precision(const RunConfig& config) {
  if (config.precision == Precision::pure && accumulation_type(config.type) == config.type)
    throw InputError(fmt::format(
        "--precision is pure and the type is {}, in which gradients and optimizer state are "
        "anyway; leave it out, or give --type bf16",
        name_of(config.type)));
}

/// The greatest norm of gradients: none where weights step in backward.
double clip_of(const RunSettings& settings) {
  const double clip = settings.train.optimizer.clip;
  if (!settings.config.step_in_backward) return clip;
  if (!settings.is_given("clip") || clip == 0) return 0;
  throw InputError(fmt::format(
      "--clip is {}, and with --step-in-backward weights are updated before the norm of all "
      "gradients is known; leave --clip out, or --step-in-backward",
      clip));
}

OptimizerOptions optimizer_of(const RunSettings& settings, const ScheduleKind& schedule) {
  OptimizerOptions options = settings.train.optimizer;
  if (settings.is_given("momentum") && options.kind != OptimizerKind::momentum)
    throw InputError(
        fmt::format("--momentum: the optimizer is {}; leave it out, or give --optimizer momentum",
                    name_of(options.kind)));
  options.clip = clip_of(settings);
  const auto late = [](const ScheduleKind& kind) { return kind.delay == 1; };
  if (options.prediction > 0 && !late(schedule))
    throw InputError(
        fmt::format("--weight-prediction: the schedule is {}, whose gradients do not come one step "
                    "late; leave it out, or give --schedule {}",
                    schedule.name, fmt::join(ScheduleKind::names(late), ", ")));
  return options;
}

RunConfig config_of(const RunSettings& settings, const std::optional<OwnSchedule>& own,
                    const Target& target) {
  RunConfig config = settings.config;
  if (!settings.is_given("type")) config.type = default_type(target);
  config.model = unscaled_model(settings);
  if (own) {
    config.schedule = own->schedule.kind;
    config.pipeline_parallel = own->schedule.stages;
    config.chunks = own->schedule.chunks;
    config.microbatches = own->schedule.microbatches;
  }
  if (!own && !settings.is_given("chunks") && config.schedule.chunks > 0)
    config.chunks = config.schedule.chunks;
  if (!settings.is_given("attention")) config.attention = default_attention(config.model);
  if (settings.is_given("recompute_modules") && !settings.is_given("recompute"))
    config.recompute = Recompute::selective;
  if (settings.is_given("offload_modules") && !settings.is_given("offload")) config.offload = true;
  check_precision(config);
  config.validate();
  config.model = config.model.scaled(settings.scale);
  config.validate();
  for (const char* flag : {"context", "ulysses_size"})
    if (settings.is_given(flag) && config.context_parallel == 1)
      throw InputError(
          fmt::format("{}: no ranks share a sequence; leave it out, or give --context-parallel of "
                      "at least 2",
                      field_of(flag).flag));
  return config;
}

}  // namespace

DType default_type(const Target& target) {
  if (target.kind() == DeviceKind::cpu) return DType::f32;
  if (target.simulated()) {
    try {
      require_able(*target.machine(), 1, DType::bf16);
    } catch (const InputError&) {
      return DType::f32;
    }
  }
  return DType::bf16;
}

AttentionKind default_attention(const ModelConfig& model) {
  return model.positions == PositionKind::rotary ? AttentionKind::fused : AttentionKind::separate;
}

void refuse_beside_file(const std::string& file_flag,
                        const std::vector<std::pair<std::string, bool>>& given) {
  for (const auto& [flag, is_given] : given)
    if (is_given)
      throw InputError(
          fmt::format("{} is given with {}, which says it; leave it out", flag, file_flag));
}

TargetOptions place_of(const RunSettings& settings) {
  TargetOptions place = settings.place;
  const std::optional<int> threads =
      settings.is_given("threads") ? std::optional(place.threads) : std::nullopt;
  check_threads(threads, place.on, device_kind(place.on) == DeviceKind::cpu);
  const Processes* const processes = Processes::here();
  place.threads = threads.value_or(processes ? processes->processors_here() : usable_processors());
  return place;
}

std::unique_ptr<Target> target_of(const RunSettings& settings) {
  (void)unscaled_model(settings);  // says what is wrong with it before anything is looked for
  auto target = make_target(place_of(settings));
  check_data_sheet(settings, *target);
  return target;
}

TrainingRun training_run(const RunSettings& settings, const Target& target) {
  TrainingRun run;
  run.own = own_schedule(settings);
  run.train = settings.train;
  if (run.own && !settings.is_given("steps")) run.train.steps = run.own->schedule.batches;
  if (run.own) check_own(*run.own, settings.schedule_file, target.kind(), run.train.steps);
  run.config = config_of(settings, run.own, target);
  check_lone_rank(settings, run.config);
  target.check(run.config);
  if (target.simulated() && !run.own && !settings.is_given("steps"))
    run.train.steps = std::max(run.train.steps, run.config.program.steps_to_settle());
  run.train.optimizer = optimizer_of(settings, run.config.schedule);
  if (!settings.is_given("warm_up")) run.train.warm_up = run.train.steps / 20;
  if (!settings.text.empty()) {
    run.text = Text::from_file(settings.text, run.config);
    run.text_name = file_name(settings.text);
  }
  return run;
}

void warn_of_clipping(const TrainingRun& run) {
  if (run.config.pipeline_parallel == 1 || run.config.schedule.flushes ||
      run.train.optimizer.clip == 0 || !Processes::speaks())
    return;
  fmt::print(stderr,
             "frugal: gradients are clipped by the norm of all stages, which wait for each other "
             "after every batch; --clip 0 lets {} go without\n",
             name_of(run.config.schedule));
}

}  // namespace frugal::harness
