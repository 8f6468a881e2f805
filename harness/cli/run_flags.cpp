#include "harness/cli/run_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/environment.h"
#include "harness/names.h"
#include "kernels/support/error.h"
#include "kernels/support/paths.h"

namespace frugal {
namespace {

OptimizerOptions optimizer_of(const RunFlags& flags, ScheduleKind schedule) {
  OptimizerOptions options = flags.options;
  options.kind = *from_name<OptimizerKind>(flags.optimizer);
  if (flags.momentum && options.kind != OptimizerKind::momentum)
    throw InputError(
        fmt::format("--momentum: the optimizer is {}; leave it out, or give --optimizer momentum",
                    flags.optimizer));
  options.momentum = flags.momentum.value_or(options.momentum);
  options.clip = flags.memory.clip_or_default();
  if (options.prediction > 0 && schedule != ScheduleKind::two_buffered)
    throw InputError(
        fmt::format("--weight-prediction: the schedule is {}, whose gradients do not come one step "
                    "late; leave it out, or give --schedule 2bw",
                    name_of(schedule)));
  return options;
}

RunConfig config_of(const RunFlags& flags, const std::optional<OwnSchedule>& own) {
  RunConfig config = flags.config;
  flags.pipeline.put_into(config, own);
  config.model = flags.model.unscaled();
  if (!flags.context.empty()) config.context = *from_name<ContextKind>(flags.context);
  config.type = *from_name<DType>(flags.type);
  flags.memory.put_into(config);
  config.validate();
  config.model = config.model.scaled(flags.model.scale);
  config.validate();
  if (!flags.context.empty() && config.context_parallel == 1)
    throw InputError(
        "--context: no ranks share a sequence; leave it out, or give --context-parallel of at "
        "least 2");
  return config;
}

/// The file that a model's or machine's name leads to; empty where it is one that is known.
std::string described_in(const std::string& name) {
  if (is_folder(name)) return (std::filesystem::path(name) / "config.json").string();
  return name.find('/') != std::string::npos || name.ends_with(".json") ? name : "";
}

/// A data sheet of another machine would give a device an MFU that means nothing.
void check_data_sheet(const RunFlags& flags, const Target& target) {
  if (target.simulated() || flags.hardware.empty()) return;
  const bool gpu = target.kind() == DeviceKind::cuda;
  const std::vector<std::string> names = machine_names();
  const std::string& name = target.machine()->name;
  const std::vector<std::string>& devices = target.machine()->device_names;
  if (gpu && std::find(devices.begin(), devices.end(), gpus().front().name) != devices.end())
    return;
  if (std::find(names.begin(), names.end(), name) != names.end())
    throw InputError(
        fmt::format("--hardware is \"{}\", the data sheet of {}, and --on is {}; give a machine "
                    "file of this {}, or --on virtual:{}",
                    file_name(flags.hardware), name, target.on(), gpu ? "GPU" : "processor", name));
}

/// What a run that is one rank without its peers cannot do.
void check_lone_rank(const RunFlags& flags, const RunConfig& config) {
  if (flags.lone_rank.empty()) return;
  if (config.tensor_parallel == 1 && config.context_parallel == 1)
    throw InputError(
        "--lone-rank: a run with a tensor-parallel and a context-parallel size of 1 has no other "
        "ranks; leave it out, or give --tensor-parallel or --context-parallel");
  if (!flags.text.empty())
    throw InputError(
        "--text: one rank without its peers has no losses that mean anything; leave it or "
        "--lone-rank out");
}

void add_place_flags(Flags& flags, RunFlags& v) {
  flags.text("--on", v.on, "cpu|cuda|virtual|virtual:MACHINE", "Where");
  flags.text("--hardware", v.hardware, "NAME|FILE",
             "The virtual machine, or a file with the data sheet of this processor or GPU");
  flags.text("--lone-rank", v.lone_rank, "NAME|FILE",
             "Run one rank of those that share layers or sequences, and let collectives take the "
             "time that they would take on the links of this machine; on cpu or cuda");
  flags.integer("--threads", v.threads, 1, "Kernel threads of the cpu; all processors otherwise",
                4096);
  flags.toggle("--pin", v.pin, "Keep each rank on cores of its own; on cpu");
  flags.number("--deadline", v.deadline, 0.001, 1e9,
               "Seconds that a rank waits for another before the run ends; 600 otherwise");
}

void add_parallel_flags(Flags& flags, RunFlags& v) {
  RunConfig& c = v.config;
  flags.integer("--tensor-parallel", c.tensor_parallel, 1, "Tensor-parallel size", 1 << 16);
  v.pipeline.add_to(flags);
  flags.integer("--data-parallel", c.data_parallel, 1, "Replicas of the pipeline", 1 << 16);
  flags.integer("--kept-microbatches", c.kept_microbatches, 0,
                "Of a stage's microbatches in flight, so many that are kept and not recomputed");
  flags.toggle("--keep-outputs", c.keep_outputs,
               "Keep what a stage has sent until its backward pass");
  flags.toggle("--sequence-parallel", c.sequence_parallel,
               "Sequence parallelism over the tensor-parallel group");
}

void add_context_flags(Flags& flags, RunFlags& v) {
  flags.integer("--context-parallel", v.config.context_parallel, 1,
                "Ranks that have a part of every sequence each; with --attention fused", 1 << 16);
  flags.choice("--context", v.context, all_names<ContextKind>(),
               "How such ranks compute attention: heads exchanged for parts of the sequence, or "
               "keys and values passed around; ulysses otherwise");
}

void add_training_flags(Flags& flags, RunFlags& v) {
  RunConfig& c = v.config;
  flags.choice("--type", v.type, all_names<DType>(), "Of weights and activations");
  flags.integer("--micro-batch", c.micro_batch, 1, "Microbatch size, sequences");
  flags.integer("--steps", v.steps, 1,
                "Training steps; otherwise 1, or the batches of --schedule-file");
  flags.integer("--warm-up", v.warm_up, 0,
                "Steps in which the learning rate rises; a twentieth of all otherwise");
  flags.choice("--optimizer", v.optimizer, all_names<OptimizerKind>(),
               "Weight decay is decoupled from the gradient but for adam");
  flags.number("--learning-rate", v.options.learning_rate, 0, 1e9,
               "After warm-up and before its cosine decay to a tenth");
  flags.number("--momentum", v.momentum, 0, 1,
               "Part of the moment that a step keeps, with --optimizer momentum; 0.9 otherwise");
  flags.number("--weight-prediction", v.options.prediction, 0, 16,
               "With --schedule 2bw, whose gradients come one step late: compute them with weights "
               "that are so many further updates ahead; 1 makes up for the delay");
  flags.number("--weight-decay", v.options.weight_decay, 0, 1e9, "Of all parameters");
  flags.integer("--seed", c.seed, 0, "Of weights, dropout and batches",
                std::numeric_limits<int64_t>::max());
  flags.text("--text", v.text, "FILE", "Train on its bytes, the last tenth held out");
}

}  // namespace

void RunFlags::add_to(Flags& flags) {
  model.add(flags);
  add_place_flags(flags, *this);
  add_parallel_flags(flags, *this);
  add_context_flags(flags, *this);
  memory.add_to(flags);
  add_training_flags(flags, *this);
}

std::vector<FlagFile> RunFlags::inputs() const {
  const std::string machine = on.substr(on.find(':') + 1);
  return {{"--model", described_in(model.name)},  {"--on", described_in(machine)},
          {"--hardware", described_in(hardware)}, {"--lone-rank", described_in(lone_rank)},
          {"--schedule-file", pipeline.file},     {"--text", text}};
}

Target RunFlags::target() const {
  (void)model.unscaled();  // says what is wrong with it before anything is looked for
  check_threads(threads, on, device_kind(on) == DeviceKind::cpu);
  Target target({.on = on,
                 .threads = threads.value_or(usable_processors()),
                 .hardware = hardware,
                 .lone_rank = lone_rank,
                 .pinning = pin ? Pinning::cores : Pinning::none,
                 .deadline = deadline});
  check_data_sheet(*this, target);
  return target;
}

TrainingRun RunFlags::run(const Target& target) const {
  TrainingRun run;
  run.own = pipeline.own();
  run.train.steps = steps.value_or(run.own ? run.own->schedule.batches : 1);
  if (run.own) check_own(*run.own, pipeline.file, target.kind(), run.train.steps);
  run.config = config_of(*this, run.own);
  check_lone_rank(*this, run.config);
  target.check(run.config);
  run.train.optimizer = optimizer_of(*this, run.config.schedule);
  run.train.warm_up = warm_up.value_or(run.train.steps / 20);
  if (!text.empty()) run.text = Text::from_file(text, run.config);
  return run;
}

void RunFlags::warn(const TrainingRun& run) {
  if (run.config.pipeline_parallel == 1 || flushes(run.config.schedule) ||
      run.train.optimizer.clip == 0)
    return;
  fmt::print(stderr,
             "frugal: gradients are clipped by the norm of all stages, which wait for each other "
             "after every batch; --clip 0 lets {} go without\n",
             name_of(run.config.schedule));
}

std::map<std::string, std::string> RunFlags::about(std::string_view command, const TrainingRun& run,
                                                   const Target& target,
                                                   const std::string& more) const {
  std::map<std::string, std::string> about = {
      {"command", fmt::format("{}frugal {} {}{}", command_prefix(target.options(run.config.type)),
                              command, text_of(run, target), more)},
      {"on", target.on()},
      {"device", target.device(run.config)},
      {"source", std::string(name_of(target.source()))},
      {"program", program_hash()}};
  if (run.own) about["schedule_file"] = "hash " + run.own->hash;
  return about;
}

std::string RunFlags::text_of(const TrainingRun& run, const Target& target) const {
  const RunConfig& c = run.config;
  std::string all = fmt::format(
      "--model {} --on {} --tensor-parallel {} {} --data-parallel {}{} --type {} --micro-batch {} "
      "--seed {} --steps {} --warm-up {} --optimizer {} "
      "--learning-rate {} --weight-decay {} "
      "--scale {}",
      file_name(model.name), target.on(), c.tensor_parallel, pipeline.text_of(c), c.data_parallel,
      memory.text_of(c), type, c.micro_batch, c.seed, run.train.steps, run.train.warm_up, optimizer,
      options.learning_rate, options.weight_decay, scale_name(model.scale));
  const auto add = [&](const char* flag, const auto& value) {
    if (value) all += fmt::format(" {} {}", flag, *value);
  };
  all += model.changes();
  add("--momentum", momentum);
  add("--deadline", deadline);
  if (options.prediction > 0) all += fmt::format(" --weight-prediction {}", options.prediction);
  if (c.kept_microbatches > 0) all += fmt::format(" --kept-microbatches {}", c.kept_microbatches);
  if (c.keep_outputs) all += " --keep-outputs";
  if (c.sequence_parallel) all += " --sequence-parallel";
  if (c.context_parallel > 1)
    all +=
        fmt::format(" --context-parallel {} --context {}", c.context_parallel, name_of(c.context));
  if (!text.empty()) all += " --text " + file_name(text);
  if (target.kind() == DeviceKind::cpu) all += fmt::format(" --threads {}", target.threads());
  if (pin) all += " --pin";
  if (!target.simulated() && !hardware.empty()) all += " --hardware " + file_name(hardware);
  if (!lone_rank.empty()) all += " --lone-rank " + file_name(lone_rank);
  return all;
}

}  // namespace frugal
