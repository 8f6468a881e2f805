#include "experiments/korthikanti2022/layer_artifact.h"

#include <fmt/format.h>

#include <algorithm>

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* paper_machine = "virtual:a100-selene";

std::string case_id(std::string_view model, const Technique& technique) {
  return fmt::format("{}/{}", model, technique.id);
}

Case layer_case(const LayerPlan& plan, const Model& model, const Technique& technique,
                const Setting& setting) {
  Case c{.id = case_id(model.config.name, technique),
         .what = plan.what,
         .config = layer_config(model, technique, 1),
         .on = setting.on,
         .scale = setting.scale};
  try {
    c.config = layer_config(model, technique, setting.scale);
  } catch (const InputError& error) {
    c.skip = fmt::format("{} at scale {}: {}", model.config.name, scale_name(setting.scale),
                         error.what());
  }
  if (setting.on == "cpu") {
    c.config.type = plan.cpu_type;
    c.config.micro_batch = plan.cpu_micro_batch.value_or(c.config.micro_batch);
  }
  return c;
}

}  // namespace

RunConfig layer_config(const Model& model, const Technique& technique, int64_t k) {
  return {
      .model = model.config.scaled(k),
      .tensor_parallel = technique.tensor_parallel ? static_cast<int>(model.tensor_parallel) : 1,
      .sequence_parallel = technique.sequence_parallel,
      .recompute = technique.recompute,
      .attention = technique.attention,
      .stored_masks = true,
      .type = DType::bf16,
      .micro_batch = model.micro_batch};
}

std::vector<Case> LayerArtifact::cases(const Selection& selection) const {
  std::vector<Setting> settings;
  if (selection.virtual_machine)
    settings.push_back({Source::simulated, paper_machine, selection.scale.value_or(1)});
  if (selection.cpu)
    settings.push_back({Source::measured, "cpu", selection.scale.value_or(plan_.cpu_scale)});
  if (selection.cuda) settings.push_back({Source::measured, "cuda", selection.scale.value_or(1)});
  std::vector<Case> cases;
  for (const Setting& setting : settings) {
    const bool cuda = setting.on == "cuda";
    std::vector<Technique> techniques = plan_.techniques;
    if (cuda) techniques.insert(techniques.end(), plan_.cuda_only.begin(), plan_.cuda_only.end());
    for (const std::string& name : plan_.models)
      for (const Technique& technique : techniques) {
        Case& c = cases.emplace_back(layer_case(plan_, model(name), technique, setting));
        if (!cuda) continue;
        c.lone_rank = selection.cuda->lone_rank(c.config);
        if (c.skip.empty()) c.skip = selection.cuda->skip(c.config);
      }
  }
  return cases;
}

std::vector<Cell> LayerArtifact::cells(const Records& records) const {
  std::vector<Cell> all;
  for (const Setting& setting : records.settings(id()))
    for (Cell& cell : cells_in(setting, records)) all.push_back(std::move(cell));
  return all;
}

Cell LayerArtifact::make_cell(std::string_view row, std::string_view column, std::string_view unit,
                              const Setting& setting, const Outcome& outcome) const {
  return frugal::make_cell(paper(), name_, row, column, unit, setting, outcome);
}

bool Layers::recorded(const Technique& technique) const {
  const auto& all = records_.all();
  return std::any_of(all.begin(), all.end(), [&](const Record& r) {
    return r.artifact == artifact_ && r.case_id == case_id(model_, technique) &&
           setting_of(r) == setting_;
  });
}

Found Layers::find(const Technique& technique) const {
  return find_case(records_, artifact_, case_id(model_, technique), setting_);
}

double bytes_kept(const Record& record, Kind kind) {
  return static_cast<double>(
      record.memory.value().after_forward.value()[static_cast<size_t>(kind)]);
}

}  // namespace frugal::korthikanti2022
