#include "experiments/korthikanti2022/layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/on_gpus.h"
#include "harness/measure/control.h"
#include "harness/place/target.h"
#include "kernels/support/error.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

Case layer_case(const LayerPlan& plan, const std::string& name, const Technique& technique,
                const Setting& setting) {
  Case c{.id = case_id(name, technique),
         .config = layer_config(model(name), technique),
         .workload = plan.observed,
         .on = setting.on};
  scale_down(c, setting.scale, name);
  if (setting.on == "cpu") {
    c.config.type = plan.cpu_type;
    c.config.micro_batch = plan.cpu_micro_batch.value_or(c.config.micro_batch);
  }
  return c;
}

std::vector<Case> cases_of(const LayerPlan& plan, Selection selection) {
  std::vector<std::string> models = plan.models;
  if (models.empty())
    for (const Model& each : korthikanti2022::models()) models.push_back(each.config.name);
  if (plan.cpu_scale == 0) selection.cpu = false;
  std::vector<Case> cases;
  for (const Setting& setting : settings_of(selection, papers_machine, plan.cpu_scale)) {
    const bool cuda = setting.on == "cuda";
    std::vector<Technique> techniques = plan.techniques;
    if (cuda) techniques.insert(techniques.end(), plan.cuda_only.begin(), plan.cuda_only.end());
    for (const std::string& name : models)
      for (const Technique& technique : techniques) {
        Case& c = cases.emplace_back(layer_case(plan, name, technique, setting));
        if (cuda) c = on_gpus(std::move(c), *selection.cuda);
      }
  }
  return cases;
}

}  // namespace

RunConfig layer_config(const Model& model, const Technique& technique, int64_t k) {
  RunConfig config;
  config.model = model.config.scaled(k);
  if (technique.tensor_parallel) config.tensor_parallel = static_cast<int>(model.tensor_parallel);
  config.sequence_parallel = technique.sequence_parallel;
  config.recompute = technique.recompute;
  config.attention = technique.attention;
  config.stored_masks = true;
  config.type = DType::bf16;
  config.micro_batch = model.micro_batch;
  return config;
}

Cases layer_cases(LayerPlan plan) {
  return [plan = std::move(plan)](const Selection& selection) { return cases_of(plan, selection); };
}

std::string case_id(std::string_view model, const Technique& technique) {
  return fmt::format("{}/{}", model, technique.id);
}

DeclaredCell layer_cell(std::string row, std::string column, std::string unit,
                        const std::string& model, const std::vector<Technique>& techniques,
                        Number number) {
  DeclaredCell cell{std::move(row), std::move(column), std::move(unit), {}, std::move(number)};
  for (const Technique& technique : techniques) cell.cases.push_back(case_id(model, technique));
  cell.papers = techniques.back().attention == AttentionKind::separate;
  if (!cell.papers) cell.note = not_the_papers;
  return cell;
}

std::function<std::optional<double>(int64_t k)> layer_formula(
    const Model& model, const Technique& technique,
    std::function<int64_t(const RunConfig&)> bytes) {
  return [&model, technique, bytes = std::move(bytes)](int64_t k) -> std::optional<double> {
    try {
      return static_cast<double>(bytes(layer_config(model, technique, k)));
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
}

Samples forward_samples(const Record& record) { return record.samples(metric::forward_time); }
Samples backward_samples(const Record& record) { return record.samples(metric::backward_time); }
Samples combined(const Record& record) {
  return combine(forward_samples(record), backward_samples(record), std::plus<>());
}

Samples combine(const Samples& a, const Samples& b,
                const std::function<double(double, double)>& f) {
  if (a.size() != b.size()) throw InputError("samples that are combined must be equally many");
  Samples c(a.size());
  std::transform(a.begin(), a.end(), b.begin(), c.begin(), f);
  return c;
}

void require_same_rounds(std::initializer_list<const Record*> records) {
  const auto count = [](const Record& r) { return r.samples(metric::forward_time).size(); };
  const Record& first = **records.begin();
  for (const Record* r : records)
    if (r->rounds != first.rounds || count(*r) != count(first))
      throw InputError(fmt::format(
          "{} and {} were not timed in the same rounds; run this artifact again with --rerun all",
          first.case_id, r->case_id));
}

bool same_forward(const RunConfig& a, const RunConfig& b) {
  return a.tensor_parallel == b.tensor_parallel && a.sequence_parallel == b.sequence_parallel &&
         a.attention == b.attention;
}

void require_still_forward(const Record& ours, const Record& without) {
  const Samples with = combined(ours), base = combined(without);
  const std::string why = why_no_effect(
      {with, base}, {forward_samples(ours), forward_samples(without)},
      fmt::format("the forward pass of {} beside that of {}", ours.case_id, without.case_id));
  if (!why.empty()) throw InputError(why);
}

double bytes_kept(const Record& record, Kind kind) {
  return static_cast<double>(
      record.memory.value().after_forward.value()[static_cast<size_t>(kind)]);
}

}  // namespace frugal::experiments::korthikanti2022
