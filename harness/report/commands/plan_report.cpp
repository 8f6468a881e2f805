#include "harness/report/commands/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/options/layer_counts.h"
#include "harness/measure/flops.h"
#include "harness/place/machine_label.h"
#include "harness/report/measurement.h"
#include "harness/report/table.h"
#include "harness/settings/config_json.h"

namespace frugal::harness {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;
constexpr const char* alike = "~";

std::string gib(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / gibibyte);
}

/// "12 %"; what rounds to nothing has no sign.
std::string percent(double share) { return fmt::format("{:.0f} %", std::round(100 * share) + 0.0); }

/// "selective norm+mlp of 5 layers"; the paper's own set has no names.
std::string recomputed(const RunConfig& run) {
  std::string text(name_of(run.recompute));
  if (run.recompute == Recompute::selective && run.recompute_modules != RunConfig::cores)
    text += ' ' + name_of(run.recompute_modules);
  if (run.recompute_layers > 0) text += fmt::format(" of {} layers", run.recompute_layers);
  return text;
}

std::string offloaded(const RunConfig& run) {
  return run.offload ? name_of(run.offload_modules) : "none";
}

/// "interleaved, v 2"
std::string order_of(const RunConfig& run) {
  const bool said = run.schedule.has_chunks && run.schedule.chunks == 0;
  const bool alone = run.schedule.makes_together && run.overlap_passes == PassOverlap::off;
  return fmt::format("{}{}{}", name_of(run.schedule), said ? fmt::format(", v {}", run.chunks) : "",
                     alone ? ", passes alone" : "");
}

/// "equal", or "1+3*2+1"
std::string sizes_of(const RunConfig& run) {
  return run.stage_layers.empty() ? "equal" : text_of_layer_counts(run.stage_layers);
}

/// "2 zigzag", of 2 ranks
std::string sharing_of(const RunConfig& run) {
  return run.context_parallel == 1
             ? "1"
             : fmt::format("{} {}", run.context_parallel, name_of(run.context));
}

/// Further choice that a plan may search: a column where rows differ from the usual, and a part of
/// a configuration's name there.
struct Searched {
  const char* title;
  const char* meaning;
  bool (*is_searched)(const PlanRequest&);
  bool (*is_usual)(const RunConfig&);
  std::string (*text)(const RunConfig&);
};
constexpr std::array<Searched, 6> also_searched = {
    {{"offload", "", [](const PlanRequest& r) { return r.searches_offload || r.run.offload; },
      [](const RunConfig& run) { return !run.offload; }, offloaded},
     {"c", "ranks that share each sequence",
      [](const PlanRequest& r) { return r.contexts.size() > 1 || r.contexts.front().ranks > 1; },
      [](const RunConfig& run) { return run.context_parallel == 1; }, sharing_of},
     {"schedule", "", [](const PlanRequest& r) { return r.schedules.size() > 1; },
      [](const RunConfig& run) {
        return !run.schedule.has_chunks && !run.schedule.splits_backward;
      },
      order_of},
     {"steps validated", "", [](const PlanRequest& r) { return r.late_steps; },
      [](const RunConfig& run) { return run.validate_steps == StepValidation::before; },
      [](const RunConfig& run) { return std::string(name_of(run.validate_steps)); }},
     {"shard", "what replicas divide", [](const PlanRequest& r) { return r.shards.size() > 1; },
      [](const RunConfig& run) { return run.shard == Shard::none; },
      [](const RunConfig& run) { return std::string(name_of(run.shard)); }},
     {"layers", "of each stage", [](const PlanRequest& r) { return r.balanced_stages; },
      [](const RunConfig& run) { return run.stage_layers.empty(); }, sizes_of}}};

/// "2bw", or "searched"
std::string schedule_of(const PlanRequest& request) {
  return request.schedules.size() > 1 ? "searched"
                                      : std::string(name_of(request.schedules.front()));
}

/// A device's peak for the run's type, with its source.
const Machine::Parameter& peak_of(const PlanRequest& request) {
  const std::string key = fmt::format("device.flops_{}", name_of(request.run.type));
  const auto& all = request.machine.parameters;
  return *std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.key == key; });
}

/// Of that peak.
double mfu(const PlanRequest& request, double seconds) {
  const double peak = request.devices * request.machine.peak_flops(request.run.type);
  return model_flops(request.run.model, static_cast<double>(request.batch)) / seconds / peak;
}

double throughput(const PlanRequest& request, double seconds) {
  return static_cast<double>(request.batch) / seconds;
}

/// A table of configurations: which columns it has.
class Columns {
 public:
  Columns(const PlanRequest& request, const std::vector<const Candidate*>& rows)
      : request_(request) {
    for (const Searched& also : also_searched) {
      const auto differs = [&](const Candidate* row) {
        return !also.is_usual(row->run) || also.text(row->run) != also.text(rows.front()->run);
      };
      if (also.is_searched(request) && std::ranges::any_of(rows, differs)) also_.push_back(&also);
    }
    on_host_ =
        std::ranges::any_of(rows, [](const Candidate* row) { return host_of_rank(*row) > 0; });
  }

  Table table(const std::vector<std::string>& last) const {
    Table table{{{"t", true}, {"w", true}, {"d", true}, {"b", true}, {"g", true}, {"recompute"}},
                {}};
    for (const Searched* also : also_) table.columns.push_back({also->title});
    for (const char* title : {"sequences/s", "MFU, %", "device-hours per 1e9 tokens"})
      table.columns.push_back({title, true});
    for (int i = 0; i < bounds; ++i)
      table.columns.push_back({std::string(name_of(static_cast<Bound>(i))), true});
    table.columns.push_back({fmt::format("GiB of {}", gib(request_.memory)), true});
    if (on_host_)
      for (const std::string& title :
           {std::string("host GiB of a rank"),
            fmt::format("of a node, of {}", gib(request_.machine.host_memory))})
        table.columns.push_back({title, true});
    for (const std::string& title : last) table.columns.push_back({title, true});
    return table;
  }

  std::vector<std::string> row(const Candidate& candidate) const {
    const RunConfig& run = candidate.run;
    const Prediction& p = candidate.prediction;
    std::vector<std::string> row = {std::to_string(run.tensor_parallel),
                                    std::to_string(run.data_parallel),
                                    std::to_string(run.pipeline_parallel),
                                    std::to_string(run.micro_batch),
                                    std::to_string(run.microbatches / run.pipeline_parallel),
                                    recomputed(run)};
    for (const Searched* also : also_) row.push_back(also->text(run));
    row.push_back(fmt::format("{:.2f}", throughput(request_, p.seconds)));
    row.push_back(fmt::format("{:.1f}", 100 * mfu(request_, p.seconds)));
    row.push_back(format_number(device_hours_per_billion_tokens(run, p.seconds)));
    for (int i = 0; i < bounds; ++i)
      row.push_back(percent(p.parts[static_cast<size_t>(i)] / p.seconds));
    row.push_back(gib(p.memory()));
    if (!on_host_) return row;
    row.push_back(gib(host_of_rank(candidate)));
    row.push_back(gib(host_memory_of_node(run, p, request_.machine.devices_per_node)));
    return row;
  }

  /// Meanings of the columns' titles.
  std::string legend() const {
    std::string legend =
        "t: tensor-parallel ranks; w: replicas; d: pipeline stages; b: sequences of a microbatch; "
        "g: "
        "times d microbatches in each pipeline";
    for (const Searched* also : also_)
      if (*also->meaning != 0) legend += fmt::format("; {}: {}", also->title, also->meaning);
    return legend + '\n';
  }

 private:
  static int64_t host_of_rank(const Candidate& candidate) {
    return std::ranges::max(candidate.prediction.stages, {}, &StagePrediction::on_host).on_host;
  }

  const PlanRequest& request_;
  std::vector<const Searched*> also_;
  bool on_host_ = false;
};

/// Whether it is of use to know of one that does not fit.
bool nearly_fits(const PlanRequest& request, const Candidate& candidate) {
  return static_cast<double>(candidate.missing) <=
         PlanRequest::nearly * static_cast<double>(request.memory);
}

nlohmann::json json_of(const PlanRequest& request, const Candidate& candidate) {
  const Prediction& p = candidate.prediction;
  nlohmann::json parts, memory = nlohmann::json::array(), on_host = memory;
  for (int i = 0; i < bounds; ++i)
    parts[std::string(name_of(static_cast<Bound>(i)))] = p.parts[static_cast<size_t>(i)];
  for (const StagePrediction& stage : p.stages) {
    memory.push_back(stage.memory);
    on_host.push_back(stage.on_host);
  }
  return {{"name", configuration_name(candidate.run)},
          {"config", harness::to_json(candidate.run)},
          {"gradient_accumulation", candidate.run.microbatches / candidate.run.pipeline_parallel},
          {"seconds", p.seconds},
          {"sequences_per_second", throughput(request, p.seconds)},
          {"mfu", mfu(request, p.seconds)},
          {"device_hours_per_billion_tokens",
           device_hours_per_billion_tokens(candidate.run, p.seconds)},
          {"seconds_by_part", parts},
          {"memory_per_stage", memory},
          {"host_memory_per_stage", on_host},
          {"host_memory_per_node",
           host_memory_of_node(candidate.run, p, request.machine.devices_per_node)},
          {"missing_memory", candidate.missing}};
}

nlohmann::json json_of(const KnownErrors& errors) {
  const auto& [steps, pairs, differ_in, source] = errors;
  return {{"steps", {{"count", steps.count}, {"median", steps.median}, {"largest", steps.largest}}},
          {"pairs",
           {{"count", pairs.count}, {"median", pairs.median}, {"nine_in_ten", pairs.nine_in_ten}}},
          {"differ_in", differ_in},
          {"source", source}};
}

bool misses_less(const Candidate& a, const Candidate& b) { return a.missing < b.missing; }

Bound largest_part(const Prediction& p) {
  return static_cast<Bound>(std::max_element(p.parts.begin(), p.parts.end()) - p.parts.begin());
}

}  // namespace

std::string configuration_name(const RunConfig& run) {
  const std::string tensor =
      run.tensor_parallel > 1 ? fmt::format("t {}, ", run.tensor_parallel) : "";
  std::string name =
      fmt::format("{}w {}, d {}, b {}, m {}, recompute {}", tensor, run.data_parallel,
                  run.pipeline_parallel, run.micro_batch, run.microbatches, recomputed(run));
  for (const Searched& also : also_searched)
    if (!also.is_usual(run)) name += fmt::format(", {} {}", also.title, also.text(run));
  return name;
}

std::string PlanReport::why() const {
  const Candidate& best = plan.fitting.front();
  const Prediction& p = best.prediction;
  const Bound bound = largest_part(p);
  std::string why =
      fmt::format("{}: {} is {:.0f} % of a batch's {} s", configuration_name(best.run),
                  name_of(bound), 100 * p.part(bound) / p.seconds, format_number(p.seconds));
  if (plan.fitting.size() > 1) {
    const Candidate& next = plan.fitting[1];
    // What the winner saves most of.
    size_t most = 0;
    const auto saved = [&](size_t i) { return next.prediction.parts[i] - p.parts[i]; };
    for (size_t i = 1; i < bounds; ++i)
      if (saved(i) > saved(most)) most = i;
    why += fmt::format("; the next ({}) spends {} s more on {}", configuration_name(next.run),
                       format_number(saved(most)), name_of(static_cast<Bound>(most)));
  }
  const auto slower =
      std::find_if(plan.too_large.begin(), plan.too_large.end(),
                   [&](const auto& c) { return c.prediction.seconds >= p.seconds; });
  const auto large_one = std::min_element(plan.too_large.begin(), slower, misses_less);
  if (large_one != slower && nearly_fits(request, *large_one)) {
    const Candidate& large = *large_one;
    why += fmt::format(
        "; {} would be {:.1f} % faster, but does not fit by {}", configuration_name(large.run),
        100 * (p.seconds / large.prediction.seconds - 1), format_bytes(large.missing).text());
  }
  return why;
}

double PlanReport::undecided() const {
  if (!errors) return 0;
  // The fastest as predicted, in whatever order execution has put them.
  const Candidate& fastest = *std::ranges::min_element(
      plan.fitting, {}, [](const Candidate& c) { return c.prediction.seconds; });
  return fastest.prediction.seconds * (1 + errors->pairs.nine_in_ten);
}

std::vector<Band> PlanReport::bands() const {
  return find_bands(label_of(request.machine), plan.fitting.front().run);
}

size_t PlanReport::like_the_first() const {
  return static_cast<size_t>(std::count_if(
      plan.fitting.begin() + 1, plan.fitting.end(),
      [longest = undecided()](const Candidate& c) { return c.prediction.seconds <= longest; }));
}

std::string PlanReport::confidence() const {
  const std::string& calibration = request.machine.calibration;
  std::string text =
      fmt::format("{}: {}\n", request.machine.name,
                  calibration.empty() ? "its file does not say what is calibrated" : calibration);
  for (const Band& band : bands()) text += band.text() + "\n";
  if (bands().empty())
    text += "not calibrated on published runs: none is of this machine and kind\n";
  if (!errors)
    return text +
           "no step of it was measured or published: how far predictions are off is not known\n";
  const auto in_percent = [](double share) { return fmt::format("{:.2g} %", 100 * share); };
  return text +
         fmt::format(
             "predictions of {} steps of whole models were off by {} (median), {} at most; of "
             "the ratio of two, {} (median), {} in nine of ten of {} pairs, which differ in "
             "{} ({})\n",
             errors->steps.count, in_percent(errors->steps.median),
             in_percent(errors->steps.largest), in_percent(errors->pairs.median),
             in_percent(errors->pairs.nine_in_ten), errors->pairs.count, errors->differ_in,
             errors->source);
}

std::string PlanReport::text() const {
  std::vector<const Candidate*> shown, large;
  for (size_t i = 0; i < std::min(rows, plan.fitting.size()); ++i)
    shown.push_back(&plan.fitting[i]);
  for (const Candidate& candidate : plan.too_large)
    if (large.size() < rows && nearly_fits(request, candidate) &&
        candidate.prediction.seconds < plan.fitting.front().prediction.seconds)
      large.push_back(&candidate);
  const Columns columns(request, shown);
  std::vector<std::string> last;
  if (!executed.empty()) last.emplace_back("executed");
  if (errors) last.emplace_back("like the first");
  Table fitting = columns.table(last);
  for (size_t i = 0; i < shown.size(); ++i) {
    fitting.rows.push_back(columns.row(*shown[i]));
    if (!executed.empty())
      fitting.rows.back().push_back(
          i < executed.size() ? fmt::format("{:.2f}", throughput(request, executed[i].seconds))
                              : "");
    if (errors)
      fitting.rows.back().push_back(i > 0 && shown[i]->prediction.seconds <= undecided() ? alike
                                                                                         : "");
  }
  std::string text = parameters_line(request.run.model);
  text += fmt::format(
      "{} on {} devices of {}, batch {}, schedule {}: the first {} of {} configurations that fit "
      "and "
      "take at most {} times as long as the fastest\n{}{}{}",
      request.run.model.name, request.devices, request.machine.name, request.batch,
      schedule_of(request), shown.size(), plan.fitting.size(), format_number(request.within),
      confidence(), fitting.text(), columns.legend());
  if (const size_t count = like_the_first(); count > 0)
    text +=
        fmt::format("{}: cannot be told apart from the first; {} of all {} that are kept cannot\n",
                    alike, count, plan.fitting.size());
  if (!large.empty()) {
    const Columns of_large(request, large);
    Table table = of_large.table({"does not fit by GiB"});
    for (const Candidate* candidate : large) {
      table.rows.push_back(of_large.row(*candidate));
      table.rows.back().push_back(gib(candidate->missing));
    }
    text += "faster, but a little too large:\n" + table.text();
  }
  const Machine::Parameter& peak = peak_of(request);
  text += fmt::format("MFU: FLOPs by {}, of {:.4g} TFLOP/s a device ({})\n",
                      model_formula(request.run.model), peak.value / 1e12, peak.source);
  return text + "why: " + why() + "\nrun: " + command + "\n";
}

nlohmann::json PlanReport::json() const {
  nlohmann::json fitting = nlohmann::json::array(), large = nlohmann::json::array();
  for (size_t i = 0; i < plan.fitting.size(); ++i) {
    fitting.push_back(json_of(request, plan.fitting[i]));
    if (i < executed.size())
      fitting.back()["executed"] = {{"seconds", executed[i].seconds},
                                    {"memory_per_stage", executed[i].memory},
                                    {"host_memory_per_stage", executed[i].on_host}};
  }
  for (const Candidate& candidate : plan.too_large) large.push_back(json_of(request, candidate));
  nlohmann::json published = nlohmann::json::array();
  for (const Band& band : bands()) published.push_back(to_json(band));
  return {{"schema", "frugal.plan/1"},
          {"model", to_json(request.run.model)},
          {"machine", request.machine.name},
          {"calibration", request.machine.calibration},
          {"prediction_errors", errors ? json_of(*errors) : nlohmann::json()},
          {"bands", published},
          {"like_the_first", errors ? nlohmann::json(like_the_first()) : nlohmann::json()},
          {"host_memory", request.machine.host_memory},
          {"devices", request.devices},
          {"batch", request.batch},
          {"schedule", schedule_of(request)},
          {"memory", request.memory},
          {"model_flops_formula", model_formula(request.run.model)},
          {"peak_flops", {{"value", peak_of(request).value}, {"source", peak_of(request).source}}},
          {"fitting", fitting},
          {"too_large", large},
          {"within", request.within},
          // How many a brief search comes to see depends on its threads.
          {"considered", request.brief ? nlohmann::json() : nlohmann::json(plan.compared())},
          {"not_filling", plan.not_filling},
          {"why", why()},
          {"command", command}};
}

std::string why_nothing_fits(const PlanRequest& request, const Plan& plan) {
  const Candidate& closest =
      *std::min_element(plan.too_large.begin(), plan.too_large.end(), misses_less);
  return fmt::format(
      "none of {} configurations fits in {} of a device (--memory); one of the closest ({}) misses "
      "by "
      "{} on stage {}; give more --devices{}",
      plan.compared(), format_bytes(request.memory).text(), configuration_name(closest.run),
      format_bytes(closest.missing).text(), closest.prediction.fullest(),
      request.searches_offload && request.tensor.size() > 1 && request.shards.size() > 1
          ? ""
          : ", or leave out flags that narrow what is searched");
}

}  // namespace frugal::harness
