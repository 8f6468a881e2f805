#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/program/find_program.h"
#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/cli/machine_flags.h"
#include "harness/cli/run_flags.h"
#include "harness/measure/progress.h"
#include "harness/place/environment.h"
#include "harness/report/commands/plan_report.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

constexpr const char *searched = "searched", *equal_stages = "equal", *all_layers = "all",
                     *no_modules = "none";

struct PlanValues {
  RunFlags run{{Section::model, Section::length},
               {"sequence_parallel", "attention", "stored_masks", "mlp_chunks", "head_chunks",
                "head_tiles", "offload_optimizer", "narrow_logits", "precision", "program"}};
  MachineFlags machine;
  std::string type = "bf16", format = "table";
  std::string tensor_parallel = searched, context_parallel = searched, context = searched,
              schedule = searched, recompute = searched, modules = searched,
              recompute_layers = searched, offload = searched, validate_steps = searched,
              shard = searched, stage_layers = searched;
  int devices = 0;  // 0: not given
  int64_t batch = 0, execute = 0, rows = 5;
  std::optional<int64_t> memory;
  std::optional<double> within;
};

std::vector<std::string> names_and_searched(std::vector<std::string> names) {
  names.insert(names.begin(), searched);
  return names;
}

/// The planner's memory is frugal's own.
void refuse_memory(const Program& program) {
  for (const Behaviour* behaviour : program.behaviours())
    if (behaviour->changes == Changes::memory)
      throw InputError(fmt::format(
          "--program is {}, which has {}, and the planner predicts no other memory than "
          "frugal's; give --program {}:time:messages",
          program.name, behaviour->name, program.name));
}

/// Those that a name names, or where it is `searched` all of these.
template <class T>
std::vector<T> those_of(const std::string& name, std::vector<T> all) {
  return name == searched ? std::move(all) : std::vector<T>{*from_name<T>(name)};
}

/// Of those that flush, which have no effect on what is trained.
std::vector<ScheduleKind> schedules_of(const std::string& name) {
  if (name != searched) return {*schedule_kind(name)};
  std::vector<ScheduleKind> all;
  std::ranges::copy_if(ScheduleKind::all(), std::back_inserter(all), &ScheduleKind::flushes);
  return all;
}

std::vector<Recomputation> recomputations_of(const PlanValues& values, AttentionKind attention) {
  std::vector<Recomputation> found;
  for (const std::string& name : names_of(Recompute()).texts()) {
    if (values.recompute != name && values.recompute != searched) continue;
    const Recompute kind = *from_name<Recompute>(name);
    if (kind != Recompute::selective)
      found.push_back({kind});
    else if (values.modules == searched)
      for (const LayerModules set : LayerModules::all_sets(LayerModules::searched))
        found.push_back({kind, set});
    // The paper's set is nothing that fused attention keeps.
    else if (const auto set = *layer_modules(values.modules, LayerModules::recomputable);
             values.recompute == name || attention == AttentionKind::separate ||
             set != RunConfig::cores)
      found.push_back({kind, set});
  }
  return found;
}

void check_modules(const std::string& modules) {
  if (modules != searched && !layer_modules(modules, LayerModules::recomputable))
    throw InputError(fmt::format("--recompute-modules is \"{}\"; it must be {}, or some of {}",
                                 modules, searched, name_of(LayerModules::recomputable)));
}

/// The same set in all configurations, or what each needs.
void offload(const std::string& modules, PlanRequest& request) {
  request.searches_offload = modules == searched;
  if (request.searches_offload || modules == no_modules) return;
  const auto set = layer_modules(modules);
  if (!set)
    throw InputError(fmt::format("--offload-modules is \"{}\"; it must be {}, {}, or some of {}",
                                 modules, no_modules, searched, name_of(LayerModules::every())));
  request.run.offload = true;
  request.run.offload_modules = *set;
}

/// Size that the flag of a field says; none where it is to be searched.
std::optional<int> size_given(const char* key, const std::string& text) {
  if (text == searched) return std::nullopt;
  ValueType type = field_of(key).type;
  type.allowed += fmt::format(", or {}", searched);
  return type.value(field_of(key).flag, text).get<int>();
}

/// Sizes of which each stage's weights can be cut into as many parts.
std::vector<int> tensor_sizes(const PlanValues& values, const PlanRequest& request) {
  if (const auto size = size_given("tensor_parallel_size", values.tensor_parallel)) return {*size};
  // Within a node: beyond it every layer's collectives cross the network.
  std::vector<int> sizes;
  const ModelConfig& m = request.run.model;
  const auto divides_all = [&](int t) {
    const auto parts = {int64_t{request.devices}, m.heads,
                        m.key_value_heads(),      m.vocabulary,
                        m.intermediate_size(),    request.run.sequence_parallel ? m.sequence : t};
    return std::all_of(parts.begin(), parts.end(), [t](int64_t part) { return part % t == 0; });
  };
  for (int t = 1; t <= std::min<int64_t>(request.devices, request.machine.devices_per_node); ++t)
    if (divides_all(t)) sizes.push_back(t);
  return sizes;
}

/// Tensor-parallel ranks divide what they would all have alike, where nothing else is said and a
/// given size allows it.
void share_sequences(const PlanValues& values, const RunSettings& settings, RunConfig& run) {
  if (settings.is_given("sequence_parallel")) return;
  const auto size = size_given("tensor_parallel_size", values.tensor_parallel);
  run.sequence_parallel = !size || run.model.sequence % *size == 0;
}

/// Throws InputError that says why no ranks can share a sequence.
void refuse_context(const PlanValues& values, const PlanRequest& request, ContextKind kind) {
  RunConfig shared = request.run;
  shared.context = kind;
  shared.context_parallel = 2;
  const std::optional<InputError> rule = broken_rule(shared);
  throw InputError(fmt::format(
      "--context is {}, and no ranks can share a sequence: {}; leave it out", values.context,
      rule ? rule->what() : "no number of ranks divides it and --devices"));
}

/// How sequences may be shared.
std::vector<Sharing> sharings(const PlanValues& values, const PlanRequest& request) {
  const std::optional<int> size = size_given("context_parallel_size", values.context_parallel);
  const std::optional<ContextKind> kind = from_name<ContextKind>(values.context);
  if (size == 1 && kind)
    throw InputError(
        fmt::format("--context is {}, and --context-parallel is 1: no ranks share a sequence; "
                    "leave one of them "
                    "out",
                    values.context));
  if (size == 1) return {{}};
  if (size && kind) return {{*size, *kind}};
  std::vector<Sharing> all =
      request.sharings(kind ? std::vector{*kind} : request.balanced_contexts());
  std::erase_if(all, [&](const Sharing& sharing) { return size && sharing.ranks != *size; });
  if (!size && kind && all.size() == 1) refuse_context(values, request, *kind);
  // One that is refused, with the rule that it breaks.
  if (all.empty()) all.push_back({*size, ContextKind::ulysses});
  return all;
}

PlanRequest request_of(const PlanValues& values, const RunSettings& settings) {
  PlanRequest request;
  RunConfig& run = request.run;
  run = settings.config;
  run.model = unscaled_model(settings).scaled(settings.scale);
  const std::string machine = values.machine.name();
  if (values.devices == 0) throw InputError("--devices is missing; give how many there are");
  if (values.batch == 0)
    throw InputError("--batch is missing; give the sequences of a batch, over all replicas");
  request.machine = find_machine(machine);
  request.devices = values.devices;
  request.batch = values.batch;
  request.memory = values.memory.value_or(request.machine.memory_capacity);
  if (!settings.is_given("attention")) run.attention = default_attention(run.model);
  run.type = weight_type(values.type);
  refuse_memory(run.program);
  share_sequences(values, settings, run);
  request.tensor = tensor_sizes(values, request);
  request.contexts = sharings(values, request);
  request.schedules = schedules_of(values.schedule);
  request.shards = those_of<Shard>(
      values.shard, {Shard::none, Shard::optimizer, Shard::gradients, Shard::weights});
  check_modules(values.modules);
  request.recompute = recomputations_of(values, run.attention);
  offload(values.offload, request);
  request.late_steps = values.validate_steps == searched;
  request.some_layers = values.recompute_layers != all_layers;
  request.within = values.within.value_or(PlanRequest::usual_within);
  request.balanced_stages = values.stage_layers != equal_stages;
  request.brief = !values.within;
  request.threads = request.brief ? usable_processors() : 1;
  return request;
}

/// The `frugal measure` that executes a configuration of the plan.
std::string command_of(const PlanValues& values, const RunSettings& asked, const RunConfig& run) {
  RunSettings settings = settings_with(asked, run);
  settings.place.hardware = values.machine.name();
  settings.train.steps = 4;
  settings.train.optimizer = planned_optimizer(run.schedule);
  settings.given["on"] = settings.place.on;
  settings.given["attention"] = name_of(run.attention);  // the model's own otherwise
  settings.given["type"] = name_of(run.type);
  settings.given["clip"] = settings.train.optimizer.clip;
  return "frugal measure" + command_flags(settings);
}

Exit plan(const PlanValues& values) {
  const RunSettings settings = values.run.settings();
  const PlanRequest request = request_of(values, settings);
  Progress progress(0);
  Plan plan = search(request, [&](size_t done, size_t all) {
    progress.reached(done, all, "ways to divide the devices and order passes");
  });
  progress.finish();
  if (plan.fitting.empty()) throw InputError(why_nothing_fits(request, plan));
  std::vector<Execution> executed =
      settle(plan, request.machine, static_cast<size_t>(values.execute));
  const PlanReport report{.request = request,
                          .plan = plan,
                          .executed = std::move(executed),
                          .errors = find_known_errors(values.machine.name()),
                          .command = command_of(values, settings, plan.fitting.front().run),
                          .rows = static_cast<size_t>(std::max(values.rows, values.execute))};
  fmt::print("{}", values.format == "json" ? report.json().dump(2) + "\n" : report.text());
  return Exit::done;
}

}  // namespace

void add_plan(CommandLine& line) {
  const auto values = std::make_shared<PlanValues>();
  Flags flags = line.command(
      "plan", "The fastest way to divide a model among devices that it fits on, and why",
      [values] { return plan(*values); });
  PlanValues& v = *values;
  v.run.add_to(flags);
  v.machine.add_to(flags, "The machine that is planned for");
  flags.integer("--devices", v.devices, 1, "Devices, all of which are used", 1 << 14);
  flags.integer("--batch", v.batch, 1, "Sequences of a batch, over all replicas", 1 << 24);
  flags.bytes("--memory", v.memory,
              "Memory of each device, such as 80GiB, instead of the machine's");
  flags.choice("--schedule", v.schedule,
               names_and_searched(ScheduleKind::names(&ScheduleKind::predicted)),
               "In which order stages compute microbatches, and with which weights; searched: all "
               "that flush");
  flags.text("--tensor-parallel", v.tensor_parallel, "N|searched",
             "Tensor-parallel size; searched: all sizes within a node");
  flags.text("--context-parallel", v.context_parallel, "N|searched",
             "Ranks that share a sequence; searched: all sizes that divide the devices and the "
             "sequence");
  flags.choice("--context", v.context, names_and_searched(names_of(ContextKind()).texts()),
               "How they do. By default searched: Ulysses, and zigzag, or ring where attention is "
               "not causal");
  flags.choice("--recompute", v.recompute, names_and_searched(names_of(Recompute()).texts()),
               "Activations that are computed again");
  flags.text("--recompute-modules", v.modules, "SET|searched",
             "Of selective recomputation; searched: every set that saves something");
  flags.choice(
      "--recompute-layers", v.recompute_layers, {all_layers, searched},
      "searched: also of as few layers as fit, from the first of each stage on, where that "
      "may be the fastest");
  flags.text("--offload-modules", v.offload, "none|SET|searched",
             "What of a layer's activations goes to the host's memory; searched: just enough to "
             "make a configuration fit, where that may be the fastest");
  flags.choice("--validate-steps", v.validate_steps, {"before", searched},
               "searched: also after they were made, without a meeting of the stages, where that "
               "may be the fastest");
  flags.choice("--shard", v.shard, names_and_searched(names_of(Shard()).texts()),
               "What replicas divide in place of copies");
  flags.choice("--stage-layers", v.stage_layers, {equal_stages, searched},
               "searched: also as many for each stage as make all equally fast");
  flags.choice("--type", v.type, weight_type_names(), "Of weights and activations");
  flags.number("--within", v.within, 1, 1e9,
               fmt::format("Keep configurations that take at most so many times as long as the "
                           "fastest that fits; {} otherwise",
                           PlanRequest::usual_within));
  flags.integer("--rows", v.rows, 1, "Configurations that are shown");
  flags.integer("--execute", v.execute, 0,
                "Execute so many of the best on the virtual machine, and order them by that");
  flags.choice("--format", v.format, {"table", "json"}, "How to print it");
}

}  // namespace frugal::harness
