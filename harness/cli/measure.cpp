#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/cli/files.h"
#include "harness/cli/program.h"
#include "harness/environment.h"
#include "harness/interrupt.h"
#include "harness/measurement.h"
#include "harness/models.h"
#include "harness/names.h"
#include "harness/record_file.h"
#include "harness/runner.h"
#include "harness/training.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

struct Values {
  std::string model, on = "virtual", hardware, lone_rank, recompute = "none", schedule = "1f1b",
                     attention = "separate", type = "f32", optimizer = "adamw", text, save_tensors,
                     out = "out", format = "table";
  std::optional<int64_t> layers, hidden, heads, sequence, vocabulary;  // the model's own otherwise
  std::optional<double> dropout;
  int64_t scale = 1, steps = 1;
  std::optional<int64_t> eval_every, warm_up;
  OptimizerOptions options;
  std::optional<double> momentum;  // of momentum only
  std::optional<int> threads;
  RunConfig config;
  bool force = false;

  int64_t warm_up_steps() const { return warm_up.value_or(steps / 20); }
};

OptimizerOptions optimizer_of(const Values& values) {
  OptimizerOptions options = values.options;
  options.kind = *from_name<OptimizerKind>(values.optimizer);
  if (values.momentum && options.kind != OptimizerKind::momentum)
    throw InputError(
        fmt::format("--momentum: the optimizer is {}; leave it out, or give --optimizer momentum",
                    values.optimizer));
  options.momentum = values.momentum.value_or(options.momentum);
  return options;
}

RunConfig config_of(const Values& values) {
  RunConfig config = values.config;
  config.model = find_model(values.model);
  ModelConfig& model = config.model;
  model.layers = values.layers.value_or(model.layers);
  model.hidden = values.hidden.value_or(model.hidden);
  model.heads = values.heads.value_or(model.heads);
  model.sequence = values.sequence.value_or(model.sequence);
  model.vocabulary = values.vocabulary.value_or(model.vocabulary);
  model.dropout = values.dropout.value_or(model.dropout);
  config.recompute = *from_name<Recompute>(values.recompute);
  config.schedule = *from_name<ScheduleKind>(values.schedule);
  config.attention = *from_name<AttentionKind>(values.attention);
  config.type = *from_name<DType>(values.type);
  config.validate();
  model = model.scaled(values.scale);
  config.validate();
  return config;
}

/// A data sheet of another machine would give a device an MFU that means nothing.
void check_data_sheet(const Values& values, const Target& target) {
  if (target.simulated() || values.hardware.empty()) return;
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
        file_name(values.hardware), name, target.on(), gpu ? "GPU" : "processor", name));
}

/// What a run that is one rank without its peers cannot do.
void check_lone_rank(const Values& values, const RunConfig& config) {
  if (values.lone_rank.empty()) return;
  if (config.tensor_parallel == 1)
    throw InputError(
        "--lone-rank: a run with a tensor-parallel size of 1 has no other ranks; leave it out, or "
        "give --tensor-parallel");
  const auto refuse = [](const char* flag, const char* what) {
    throw InputError(fmt::format(
        "{}: one rank without its peers has no {} that mean anything; leave it or --lone-rank out",
        flag, what));
  };
  if (!values.save_tensors.empty()) refuse("--save-tensors", "values");
  if (!values.text.empty()) refuse("--text", "losses");
}

std::string command_of(const Values& v, const Record& record, int threads) {
  const RunConfig& c = record.config;
  std::string command = fmt::format(
      "frugal measure --model {} --on {} --tensor-parallel {} --pipeline-parallel {} "
      "--data-parallel {} --schedule {} "
      "--recompute {} --attention {} --type {} --micro-batch {} --microbatches {} "
      "--seed {} --steps {} --warm-up {} --optimizer {} --learning-rate {} --weight-decay {} "
      "--scale {}",
      file_name(v.model), record.on, c.tensor_parallel, c.pipeline_parallel, c.data_parallel,
      v.schedule, v.recompute, v.attention, v.type, c.micro_batch, c.microbatches, c.seed, v.steps,
      v.warm_up_steps(), v.optimizer, v.options.learning_rate, v.options.weight_decay,
      scale_name(v.scale));
  const auto add = [&](const char* flag, const auto& value) {
    if (value) command += fmt::format(" {} {}", flag, *value);
  };
  add("--layers", v.layers);
  add("--hidden", v.hidden);
  add("--heads", v.heads);
  add("--sequence", v.sequence);
  add("--vocabulary", v.vocabulary);
  add("--eval-every", v.eval_every);
  add("--dropout", v.dropout);
  add("--momentum", v.momentum);
  if (c.chunks > 1) command += fmt::format(" --chunks {}", c.chunks);
  if (c.kept_microbatches > 0)
    command += fmt::format(" --kept-microbatches {}", c.kept_microbatches);
  if (c.keep_outputs) command += " --keep-outputs";
  if (c.sequence_parallel) command += " --sequence-parallel";
  if (c.stored_masks) command += " --stored-masks";
  if (!v.text.empty()) command += " --text " + file_name(v.text);
  if (record.on == "cpu") command += fmt::format(" --threads {}", threads);
  if (record.source == Source::measured && !v.hardware.empty())
    command += " --hardware " + file_name(v.hardware);
  if (!v.lone_rank.empty()) command += " --lone-rank " + file_name(v.lone_rank);
  return command;
}

Record blank(const Values& values, const TrainingRun& run, const Target& target) {
  Record record;
  record.artifact = "measure";
  record.case_id = run.config.model.name;
  record.what = "training";
  record.source = target.source();
  record.on = target.on();
  record.device = target.device(run.config);
  record.modelled = target.modelled();
  record.scale = values.scale;
  record.machine = target.machine_hash();
  record.config = run.config;
  record.options = options_of(run);
  if (target.kind() == DeviceKind::cpu)
    record.options["threads"] = std::to_string(target.threads());
  if (run.text) {
    const int64_t evaluated = run.text->held_out_microbatches(held_out_tokens) *
                              run.config.micro_batch * run.config.model.sequence;
    record.options["text"] = fmt::format("{}, hash {}, {} training bytes, {} held out",
                                         file_name(values.text), hash_of(run.text->bytes()),
                                         run.text->training_bytes(), run.text->held_out_bytes());
    record.options["held_out_bytes_evaluated"] = std::to_string(evaluated);
  }
  record.options.merge(target.options(run.config.type));
  record.fingerprint = fingerprint_of(record);
  record.command = command_prefix(record.options) + command_of(values, record, target.threads());
  return record;
}

/// Every step's work, and one record that says how it ended.
void run_and_record(const TrainingRun& run, Target& target, Record& record, RecordFile& file) {
  Progress progress(static_cast<size_t>(run.train.steps));
  record.started = utc_now();
  record.environment = environment(target.kind()).dump();
  const auto end = [&] {
    record.ended = utc_now();
    file.append(record);
  };
  try {
    run_training(run, target, record, [&](int64_t step, const std::string& outcome) {
      progress.finished(fmt::format("step {}", step), outcome);
    });
  } catch (const Interrupted&) {
    end();
    throw;
  }
  end();
}

Exit measure(const Values& values) {
  if (values.model.empty())
    throw InputError(fmt::format("--model is missing; give one of {}, or a JSON file",
                                 fmt::join(model_names(), ", ")));
  check_threads(values.threads, values.on, device_kind(values.on) == DeviceKind::cpu);
  Target target({.on = values.on,
                 .threads = values.threads.value_or(usable_processors()),
                 .hardware = values.hardware,
                 .lone_rank = values.lone_rank});
  check_data_sheet(values, target);
  TrainingRun run;
  run.config = config_of(values);
  check_lone_rank(values, run.config);
  target.check(run.config);
  run.train.optimizer = optimizer_of(values);
  run.train.steps = values.steps;
  run.train.warm_up = values.warm_up_steps();
  run.eval_every = values.eval_every.value_or(0);
  run.save_tensors = values.save_tensors;
  if (!values.text.empty()) run.text = Text::from_file(values.text, run.config);
  if (target.simulated() && !run.save_tensors.empty())
    throw InputError(
        "--save-tensors: a virtual device has no values to save; use --on cpu or cuda");
  if (!run.save_tensors.empty()) check_new_file("--save-tensors", run.save_tensors);

  Record record = blank(values, run, target);
  RecordFile file(values.out);
  catch_interrupts();
  if (values.force) file.set_aside();
  const Record* before = run.save_tensors.empty() ? last_final(file.records(), record) : nullptr;
  if (before != nullptr) {
    fmt::print(stderr, "already recorded in {}/{}; --force runs it again\n", values.out,
               RecordFile::name);
    record = *before;
  } else {
    run_and_record(run, target, record, file);
  }
  fmt::print("{}", values.format == "json" ? to_json(record).dump(2) + "\n"
                                           : measurement_table(record).text());
  if (!record.ok()) fmt::print(stderr, "frugal: {}\n", record.reason);
  return exit_of(record.status);
}

void add_model_flags(Flags& flags, Values& v) {
  flags.text("--model", v.model, fmt::format("{}|FILE.json", fmt::join(model_names(), "|")),
             "A model by name, or described in a JSON file");
  flags.integer("--layers", v.layers, 1, "Transformer layers instead of the model's");
  flags.integer("--hidden", v.hidden, 1, "Hidden size instead of the model's");
  flags.integer("--heads", v.heads, 1, "Attention heads instead of the model's");
  flags.integer("--sequence", v.sequence, 1, "Sequence length instead of the model's, tokens");
  flags.integer("--vocabulary", v.vocabulary, 1, "Vocabulary size instead of the model's");
  flags.number("--dropout", v.dropout, 0, 1,
               "Dropout probability instead of the model's, rounded to 1/65536");
  flags.scale("--scale", v.scale, "Hidden size, sequence length and vocabulary divided by K");
}

void add_run_flags(Flags& flags, Values& v) {
  RunConfig& c = v.config;
  flags.integer("--tensor-parallel", c.tensor_parallel, 1, "Tensor-parallel size", 1 << 16);
  flags.integer("--pipeline-parallel", c.pipeline_parallel, 1, "Stages of the pipeline", 1 << 16);
  flags.choice("--schedule", v.schedule, all_names<ScheduleKind>(),
               "In which order stages compute microbatches, and with which weights");
  flags.integer("--chunks", c.chunks, 1,
                "Parts of the model on each stage; --schedule interleaved");
  flags.integer("--data-parallel", c.data_parallel, 1, "Replicas of the pipeline", 1 << 16);
  flags.integer("--kept-microbatches", c.kept_microbatches, 0,
                "Of a stage's microbatches in flight, so many that are kept and not recomputed");
  flags.toggle("--keep-outputs", c.keep_outputs,
               "Keep what a stage has sent until its backward pass");
  flags.toggle("--sequence-parallel", c.sequence_parallel,
               "Sequence parallelism over the tensor-parallel group");
  flags.choice("--recompute", v.recompute, all_names<Recompute>(),
               "Activations that are computed again");
  flags.choice("--attention", v.attention, all_names<AttentionKind>(),
               "Fused attention keeps no scores; not with --recompute selective");
  flags.toggle("--stored-masks", c.stored_masks,
               "Keep dropout masks, one byte per element, instead of regenerating them");
  flags.choice("--type", v.type, all_names<DType>(), "Of weights and activations");
  flags.integer("--micro-batch", c.micro_batch, 1, "Microbatch size, sequences");
  flags.integer("--microbatches", c.microbatches, 1, "Microbatches per step, of each replica");
  flags.integer("--steps", v.steps, 1, "Training steps");
  flags.integer("--warm-up", v.warm_up, 0,
                "Steps in which the learning rate rises; a twentieth of all otherwise");
  flags.choice("--optimizer", v.optimizer, all_names<OptimizerKind>(),
               "Weight decay is decoupled from the gradient but for adam");
  flags.number("--learning-rate", v.options.learning_rate, 0, 1e9,
               "After warm-up and before its cosine decay to a tenth");
  flags.number("--momentum", v.momentum, 0, 1,
               "Part of the moment that a step keeps, with --optimizer momentum; 0.9 otherwise");
  flags.number("--weight-decay", v.options.weight_decay, 0, 1e9, "Of all parameters");
  flags.integer("--seed", c.seed, 0, "Of weights, dropout and batches",
                std::numeric_limits<int64_t>::max());
  flags.text("--text", v.text, "FILE", "Train on its bytes, the last tenth held out");
  flags.integer("--eval-every", v.eval_every, 1,
                "Steps between held-out losses; always at the end");
}

}  // namespace

void add_measure(Program& program) {
  const auto values = std::make_shared<Values>();
  Flags flags = program.command("measure", "Train your own configuration and record what it takes",
                                [values] { return measure(*values); });
  add_model_flags(flags, *values);
  flags.text("--on", values->on, "cpu|cuda|virtual|virtual:MACHINE", "Where");
  flags.text("--hardware", values->hardware, "NAME|FILE",
             "The virtual machine, or a file with the data sheet of this processor or GPU");
  flags.text("--lone-rank", values->lone_rank, "NAME|FILE",
             "Run one rank of the tensor-parallel ones, and let collectives take the time that "
             "they would take on the links of this machine; on cpu or cuda");
  add_run_flags(flags, *values);
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  flags.text("--save-tensors", values->save_tensors, "FILE",
             "Weights after the last step, and a microbatch's logits, loss and gradients "
             "(safetensors)");
  flags.text("--out", values->out, "DIR", "Folder for records.jsonl");
  flags.choice("--format", values->format, {"table", "json"}, "How to print the record on stdout");
  flags.toggle("--force", values->force, "Run again what is recorded; old records are kept aside");
}

}  // namespace frugal
