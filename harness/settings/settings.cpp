#include "harness/settings/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/settings/field.h"
#include "harness/settings/models.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

[[noreturn]] void refuse_unknown(const std::string& key, const std::string& where) {
  std::vector<std::string> keys;
  for (const Field& field : fields()) keys.push_back(field.key);
  const auto near = nearest(key, keys);
  throw InputError(fmt::format("{}{} is not a known key; {}", where, key,
                               near.empty()
                                   ? fmt::format("known are {}", fmt::join(keys, ", "))
                                   : fmt::format("did you mean {}?", fmt::join(near, ", "))));
}

/// A model that has no base says all that a description of a model must.
void check_described(const RunSettings& settings) {
  std::vector<std::string> missing;
  bool any = false;
  for (const Field& field : fields()) {
    if (field.of != FieldOf::model) continue;
    any = any || settings.is_given(field.key);
    if (field.required && !settings.is_given(field.key)) missing.push_back(field.key);
  }
  if (missing.empty()) return;
  throw InputError(fmt::format(
      "--model is missing; give one of {}, or a JSON file{}", fmt::join(model_names(), ", "),
      any ? fmt::format(", or say {} too", fmt::join(missing, ", ")) : ""));
}

/// A size that follows from others where a model does not state it.
struct FollowingSize {
  const char* key;
  double (*follows)(const ModelConfig&);  ///< grows as this does
};
constexpr std::array following_sizes = {
    FollowingSize{"intermediate_size",
                  [](const ModelConfig& m) { return static_cast<double>(m.hidden); }},
    FollowingSize{"key_value_heads",
                  [](const ModelConfig& m) { return static_cast<double>(m.heads); }},
    FollowingSize{"head_size",
                  [](const ModelConfig& m) {
                    return static_cast<double>(m.hidden) / static_cast<double>(m.heads);
                  }},
    FollowingSize{"query_scale",
                  [](const ModelConfig& m) { return static_cast<double>(m.head_size()); }}};

/// "--intermediate (28672 keeps the ratio, 14336 the size)"; only a whole size keeps a ratio.
std::string sizes_to_choose(const Field& field, double stated, double in_ratio) {
  const std::string ratio =
      in_ratio == std::floor(in_ratio) ? fmt::format("{} keeps the ratio, ", in_ratio) : "";
  return fmt::format("{} ({}{} {}the size)", field.name(), ratio, stated,
                     ratio.empty() ? "keeps " : "");
}

/// Throws InputError where `model` keeps a size that `base` states, although what it follows from
/// is another: nobody has such a model in mind.
void ask_for_sizes(const RunSettings& base, const RunSettings& model, const nlohmann::json& given) {
  const ModelConfig &was = base.config.model, &is = model.config.model;
  std::vector<std::string> changed, asked;
  for (const FollowingSize& size : following_sizes) {
    const Field& field = field_of(size.key);
    const double stated = field.get(base).get<double>();
    if (stated == 0 || given.contains(size.key)) continue;
    const double in_ratio = stated * size.follows(is) / size.follows(was);
    if (in_ratio != stated) asked.push_back(sizes_to_choose(field, stated, in_ratio));
  }
  if (asked.empty()) return;
  for (const char* key : {"hidden_size", "attention_heads", "head_size"})
    if (const Field& field = field_of(key); field.get(model) != field.get(base))
      changed.push_back(fmt::format("{} {}", field.name(), field.type.text(field.get(model))));
  throw InputError(fmt::format("{}: {} states sizes of its own that follow it; give {}",
                               fmt::join(changed, " "), was.name, fmt::join(asked, " and ")));
}

}  // namespace

void RunSettings::describe(Fields<RunSettings>& f) {
  f.section(Section::model);
  f.text("model", &RunSettings::model,
         {.placeholder = fmt::format("{}|FILE.json|FOLDER", fmt::join(model_names(), "|"))},
         "A model by name, or described in a JSON file or in a folder's config.json")
      .named_file(NamesFile::perhaps)
      .list = true;
  f.own(
       "scale", &RunSettings::scale, scale_text(), scale_name,
       [](const FieldValue& text) { return *parse_scale(std::get<std::string>(text)); },
       "Hidden size, sequence length and vocabulary divided by K")
      .behind("window_period");
  f.section(Section::own_schedule);
  f.text("schedule_file", &RunSettings::schedule_file, {.placeholder = "FILE"},
         "A schedule of your own (docs/schedules.md), repeated until all steps are done. It says "
         "what --schedule, --pipeline-parallel, --chunks and --microbatches would, which are "
         "refused beside it; its first batch is 0, and --steps a multiple of its batches")
      .behind("microbatches")
      .named_file(NamesFile::always);
}

void EvaluationOptions::describe(Fields<EvaluationOptions>& f) {
  using E = EvaluationOptions;
  f.section(Section::steps);
  f.text("text", &E::text, {.placeholder = "FILE"}, "Train on its bytes, the last tenth held out")
      .named_file(NamesFile::always);
  f.section(Section::evaluation);
  f.number("eval_every", &E::eval_every, {1}, "Steps between held-out losses; always at the end")
      .usually_follows();
  f.number("last_words", &E::last_words, {0},
           "Passages of the held-out text whose last word is asked for at the end");
  f.text("load_weights", &E::load_weights, {.placeholder = "FILE|FOLDER"},
         "Begin with these weights and not with random ones: a safetensors file, an index of "
         "several (model.safetensors.index.json), or a folder with either (docs/models.md)")
      .named_file(NamesFile::always);
  f.text("checkpoint", &E::checkpoint, {.placeholder = "FOLDER"},
         "Write all that the training needs to resume to this folder, after the last step and "
         "every --every steps; the last two are kept (docs/cluster.md)")
      .named_file(NamesFile::always);
  f.number("checkpoint_every", &E::checkpoint_every, {1}, "Steps between checkpoints")
      .flagged("--every")
      .usually_follows();
  f.text("resume", &E::resume, {.placeholder = "FOLDER"},
         "Resume from the last checkpoint in this folder, or from the one that it is, with as many "
         "ranks or others")
      .named_file(NamesFile::always);
}

RunSettings settings_of(const nlohmann::json& given, const std::string& where) {
  RunSettings settings;
  for (const auto& [key, value] : given.items())
    if (std::none_of(fields().begin(), fields().end(),
                     [&key = key](const Field& field) { return field.key == key; }))
      refuse_unknown(key, where);
  for (const Field& field : fields()) {
    const auto value = given.find(field.key);
    if (value == given.end()) continue;
    field.type.check(where + (where.empty() ? field.name() : field.key), *value);
    field.set(settings, *value, where.empty() ? field.name() : where.substr(0, where.size() - 2));
  }
  settings.given = given;
  return settings;
}

ModelConfig with_values(const ModelConfig& model, const nlohmann::json& given) {
  RunSettings base;
  base.config.model = model;
  RunSettings changed = base;
  bool is_other = false;
  for (const Field& field : fields()) {
    if (field.of != FieldOf::model || !given.contains(field.key)) continue;
    field.set(changed, given.at(field.key), field.name());
    is_other = is_other || (field.key != "name" && field.get(changed) != field.get(base));
  }
  ask_for_sizes(base, changed, given);
  std::string& name = changed.config.model.name;
  if (is_other && !given.contains("name") && !name.empty() && !name.ends_with('*')) name += '*';
  return changed.config.model;
}

ModelConfig unscaled_model(const RunSettings& settings) {
  if (settings.model.empty()) check_described(settings);
  return with_values(settings.model.empty() ? ModelConfig() : find_model(settings.model),
                     settings.given);
}

}  // namespace frugal::harness
