#include "tests/combinations/draw.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/options/fields.h"
#include "engine/program/behaviour.h"
#include "tests/engine/support.h"

namespace frugal::testing {

FieldValue Draw::value_of(const Described& field) {
  if (!field.drawn.empty()) return field.drawn[random_() % field.drawn.size()];
  if (const auto* number = std::get_if<allowed::Number>(&field.allowed))
    return std::min(number->low + static_cast<int64_t>(random_() % 3), number->high);
  if (const auto* one = std::get_if<allowed::OneOf>(&field.allowed))
    return one->names[random_() % one->names.size()];
  if (const auto* some = std::get_if<allowed::SomeOf>(&field.allowed)) {
    std::vector<std::string> names = {some->names[random_() % some->names.size()]};
    for (const std::string& name : some->names)
      if (name != names.front() && once_in(2)) names.push_back(name);
    return fmt::format("{}", fmt::join(names, "+"));
  }
  return once_in(3);
}

RunConfig Draw::combination(Device device) {
  RunConfig c = model();
  for (const Field<RunConfig>& field : fields_of<RunConfig>()) {
    const bool has_text = std::holds_alternative<allowed::Text>(field.allowed);
    if (!has_text && (!field.applies || field.applies(c))) field.set(c, value_of(field));
  }
  stages(c);
  if (c.context_parallel > 1) c.model.dropout = 0;
  program(c, device);
  return c;
}

RunConfig Draw::model() {
  RunConfig c = one_of({small_gpt, small_bert, small_llama, small_gemma})();
  c.model.layers = one_of<int64_t>({2, 4, 8});
  c.model.hidden = one_of<int64_t>({32, 64});
  if (c.model.head_width > 0) c.model.head_width = c.model.hidden / c.model.heads * 2;
  c.model.sequence = one_of<int64_t>({16, 24});
  if (c.model.positions == PositionKind::learned) c.model.tied = !once_in(4);
  return c;
}

void Draw::stages(RunConfig& c) {
  if (c.pipeline_parallel == 1) c.schedule = ScheduleKind::one_forward_one_backward;
  if (!c.schedule.has_chunks || c.schedule.chunks > 0) c.chunks = c.schedule.usual_chunks();
  if (c.pipeline_parallel == 1 || !once_in(3)) return;
  c.stage_layers.assign(static_cast<size_t>(c.pipeline_parallel * c.chunks), 1);
  c.stage_layers[one_of<size_t>({0, 1})] = 3;
  c.model.layers = c.pipeline_parallel * c.chunks + 2;
}

void Draw::program(RunConfig& c, Device device) {
  if (!once_in(3)) return;
  std::vector<std::string_view> names;
  for (const Behaviour& behaviour : behaviours()) {
    if ((device == Device::computes && !behaviour.real) || !once_in(8)) continue;
    c.program.add(behaviour);
    names.push_back(behaviour.name);
  }
  c.program.name = fmt::format("{}", fmt::join(names, "+"));
}

std::string text_of(const RunConfig& c) {
  std::string text;
  const auto add = [&text](const auto& of) {
    using Of = std::decay_t<decltype(of)>;
    for (const Field<Of>& field : fields_of<Of>())
      if (!field.is_usual(of))
        text += fmt::format("{}={} ", field.key, engine::text_of(field.get(of)));
  };
  add(c.model);
  add(c);
  return text;
}

}  // namespace frugal::testing
