#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/settings/field.h"
#include "harness/settings/models.h"
#include "harness/settings/rotary_json.h"

namespace frugal::harness {
namespace {

constexpr double most = 1e9;

/// It may be empty.
ValueType name_type() {
  ValueType name = any_text("NAME");
  name.accepts = [](const nlohmann::json& value) { return value.is_string(); };
  name.schema = {{"type", "string"}};
  return name;
}

Field rotary() {
  const FieldText text{"rotary", "", "How queries and keys are rotated: base, factor, bands"};
  Field field{
      .key = text.key,
      .flag = text.flag,
      .help = text.help,
      .of = FieldOf::model,
      .type = json_object(),
      .get = [](const RunSettings& s) { return harness::to_json(s.config.model.rotary); },
      .set = [](RunSettings& s, const nlohmann::json& json,
                const std::string& where) { s.config.model.rotary = rotary_of(json, where); }};
  return std::move(field).when(
      [](const RunSettings& s) { return s.config.model.positions == PositionKind::rotary; });
}

/// What makes another family than GPT-2 of a model.
std::vector<Field> family() {
  using M = ModelConfig;
  const ValueType count = whole_number(0), number = real_number(0, most);
  return {
      field({"key_value_heads", "--key-value-heads",
             "Heads of keys and of values instead of the model's; 0: as many as of queries"},
            &M::kv_heads, count),
      field({"head_size", "--head-size",
             "Columns of a head instead of the model's; 0: hidden size / attention heads"},
            &M::head_width, count),
      field({"intermediate_size", "--intermediate",
             "Size between an MLP's linear maps instead of the model's; 0: 4 x hidden size"},
            &M::intermediate, count),
      choice({"norm", "", "Layer norm or root mean square norm"}, &M::norm),
      field({"norm_epsilon", "", "What norms add to the variance"}, &M::norm_epsilon, number),
      on_off({"post_norms", "", "A norm behind attention and one behind the MLP besides"},
             &M::post_norms),
      choice({"mlp", "", "What is between an MLP's linear maps"}, &M::mlp),
      choice({"bias", "", "Which linear maps have a bias"}, &M::bias),
      choice({"positions", "", "Learned vectors, or rotated queries and keys"}, &M::positions),
      rotary(),
      on_off({"tied_embeddings", "", "The output layer multiplies by the token embedding"},
             &M::tied),
      on_off({"scaled_embedding", "", "The embedding is multiplied by the root of the hidden size"},
             &M::scaled_embedding),
      field({"query_scale", "", "Scores are divided by its root; 0: by that of the head size"},
            &M::query_scale, number),
      field({"attention_softcap", "", "Of scores; 0: none"}, &M::attention_softcap, number),
      field({"logit_softcap", "", "Of logits; 0: none"}, &M::logit_softcap, number),
      field({"window", "", "Positions that one sees at most; 0: all before it"}, &M::window, count),
      field({"window_period", "", "Every how many layers one has the window"}, &M::window_period,
            count)};
}

/// What every description of a model says.
std::vector<Field> sizes() {
  using M = ModelConfig;
  const ValueType count = whole_number(1);
  std::vector<Field> fields;
  fields.push_back(
      field({"layers", "--layers", "Transformer layers instead of the model's"}, &M::layers, count)
          .needed());
  fields.push_back(
      field({"hidden_size", "--hidden", "Hidden size instead of the model's"}, &M::hidden, count)
          .needed());
  fields.push_back(field({"attention_heads", "--heads", "Attention heads instead of the model's"},
                         &M::heads, count)
                       .needed());
  Field length = field({"sequence_length", "--sequence",
                        "Sequence length instead of the model's, tokens; 8k is 8192"},
                       &M::sequence, token_count())
                     .needed();
  length.group = FieldGroup::length;
  fields.push_back(length);
  fields.push_back(
      field({"vocabulary_size", "--vocabulary", "Vocabulary size instead of the model's"},
            &M::vocabulary, count)
          .needed());
  fields.push_back(field({"dropout", "--dropout",
                          "Dropout probability instead of the model's, rounded to 1/65536"},
                         &M::dropout, real_number(0, 1))
                       .always()
                       .if_said());
  fields.push_back(
      on_off({"causal", "", "Whether a position sees no later one"}, &M::causal).always());
  fields.push_back(
      choice({"objective", "", "The token that follows, or those that are hidden"}, &M::objective)
          .always());
  return fields;
}

}  // namespace

std::vector<Field> model_fields() {
  std::vector<Field> all;
  all.push_back(field({"model", "--model",
                       "A model by name, or described in a JSON file or in a folder's config.json"},
                      &RunSettings::model,
                      any_text(fmt::format("{}|FILE.json|FOLDER", fmt::join(model_names(), "|"))))
                    .with_file(Field::File::perhaps));
  all.back().type.list = true;
  all.push_back(field({"name", "", "What a model that is described here is called"},
                      &ModelConfig::name, name_type())
                    .always());
  for (Field& field : sizes()) all.push_back(std::move(field));
  for (Field& field : family()) all.push_back(std::move(field));
  all.push_back(
      {.key = "scale",
       .flag = "--scale",
       .help = "Hidden size, sequence length and vocabulary divided by K",
       .type = scale_type(),
       .get = [](const RunSettings& s) { return scale_name(s.scale); },
       .set = [](RunSettings& s, const nlohmann::json& json,
                 const std::string&) { s.scale = *parse_scale(json.get<std::string>()); }});
  return all;
}

}  // namespace frugal::harness
