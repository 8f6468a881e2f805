#include "engine/model_config.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/options/fields.h"
#include "engine/options/rules.h"
#include "kernels/dropout.h"

namespace frugal::engine {
using namespace rules;  // NOLINT: this file says which hold

namespace {

void validate_rotary(const ModelConfig& m) {
  if (m.head_size() % 2 != 0)
    throw InputError(fmt::format(
        "head size is {}; rotary positions turn pairs and need an even one", m.head_size()));
  const RotaryConfig& r = m.rotary;
  if (!(r.base > 1) || !std::isfinite(r.base))
    throw InputError(fmt::format("rotary base is {}; it must be above 1, and finite", r.base));
  if (!(r.factor >= 1) || !std::isfinite(r.factor))
    throw InputError(
        fmt::format("rotary factor is {}; it must be at least 1, and finite", r.factor));
  if (r.bands && !(r.low > 0 && r.high > r.low && r.original > 0))
    throw InputError(fmt::format(
        "rotary bands are {} to {} turns within {} positions; the first must be above 0 and below "
        "the second, and there must be positions",
        r.low, r.high, r.original));
}

/// Fields by which a model differs from GPT-2's family.
void describe_family(Fields<ModelConfig>& f, const allowed::Real& number) {
  using M = ModelConfig;
  f.choice("norm", &M::norm, "Layer norm or root mean square norm").flagged("");
  f.real("norm_epsilon", &M::norm_epsilon, number, "What norms add to the variance").flagged("");
  f.on_off("post_norms", &M::post_norms, "A norm behind attention and one behind the MLP besides")
      .flagged("");
  f.choice("mlp", &M::mlp, "What is between an MLP's linear maps").flagged("");
  f.choice("bias", &M::bias, "Which linear maps have a bias").flagged("");
  f.choice("positions", &M::positions, "Learned vectors, or rotated queries and keys").flagged("");
  f.on_off("tied_embeddings", &M::tied, "The output layer multiplies by the token embedding")
      .flagged("");
  f.on_off("scaled_embedding", &M::scaled_embedding,
           "The embedding is multiplied by the root of the hidden size")
      .flagged("");
  f.real("query_scale", &M::query_scale, number,
         "Scores are divided by its root; 0: by that of the head size")
      .flagged("");
  f.real("attention_softcap", &M::attention_softcap, number, "Of scores; 0: none").flagged("");
  f.real("logit_softcap", &M::logit_softcap, number, "Of logits; 0: none").flagged("");
  f.number("window", &M::window, {0, most_tokens},
           "Positions that one sees at most; 0: all before it")
      .flagged("");
  f.number("window_period", &M::window_period, {1, most_layers},
           "Every how many layers one has the window")
      .flagged("");
}

}  // namespace

void ModelConfig::describe(Fields<ModelConfig>& f) {
  using M = ModelConfig;
  constexpr double most = 1e9;
  const allowed::Number width{1, most_hidden}, perhaps{0, most_hidden};
  const allowed::Real number{0, most};
  f.section(Section::model);
  f.text("name", &M::name, {.placeholder = "NAME", .may_be_empty = true},
         "What a model that is described here is called")
      .flagged("")
      .written();
  f.number("layers", &M::layers, {1, most_layers}, "Transformer layers instead of the model's")
      .must_be_there();
  f.number("hidden_size", &M::hidden, width, "Hidden size instead of the model's")
      .flagged("--hidden")
      .must_be_there();
  f.number("attention_heads", &M::heads, width, "Attention heads instead of the model's")
      .flagged("--heads")
      .must_be_there();
  f.number("sequence_length", &M::sequence, {.low = 1, .high = most_tokens, .tokens = true},
           "Sequence length instead of the model's, tokens; 8k is 8192")
      .flagged("--sequence")
      .in(Section::length)
      .must_be_there();
  f.number("vocabulary_size", &M::vocabulary, {1, most_tokens},
           "Vocabulary size instead of the model's")
      .flagged("--vocabulary")
      .must_be_there();
  f.real("dropout", &M::dropout, {0, 1},
         "Dropout probability instead of the model's, rounded to 1/65536")
      .written()
      .usually_follows();
  f.on_off("causal", &M::causal, "Whether a position sees no later one").flagged("").written();
  f.choice("objective", &M::objective, "The token that follows, or those that are hidden")
      .flagged("")
      .written();
  f.number("key_value_heads", &M::kv_heads, perhaps,
           "Heads of keys and of values instead of the model's; 0: as many as of queries")
      .zero("", "attention heads");
  f.number("head_size", &M::head_width, perhaps,
           "Columns of a head instead of the model's; 0: hidden size / attention heads")
      .zero("", "hidden size / attention heads");
  f.number("intermediate_size", &M::intermediate, {0, 8 * most_hidden},
           "Size between an MLP's linear maps instead of the model's; 0: 4 x hidden size")
      .flagged("--intermediate")
      .zero("", "4 x hidden size");
  describe_family(f, number);
}

void ModelConfig::validate() const {
  check_fields(*this);
  if (head_width == 0)
    divisible("hidden size", hidden, "attention heads", heads,
              "choose a number of heads that divides it");
  divisible("attention heads", heads, "key/value heads", key_value_heads(),
            "choose a number of key/value heads that divides it");
  if (window > 0 && !causal)
    throw InputError(
        fmt::format("window is {} and causal is false; windows look back only", window));
  if (positions == PositionKind::rotary) validate_rotary(*this);
  if (objective == Objective::masked_token && vocabulary == 1)
    throw InputError(
        "vocabulary size is 1; the masked-token objective needs an id for the mask token, and one "
        "for a token");
  if (!Dropout::possible(static_cast<float>(dropout)))
    throw InputError(fmt::format(
        "dropout is {}; it must be 0 or, rounded to 1/65536, above 0 and below 1", dropout));
}

ModelConfig ModelConfig::scaled(int64_t k) const {
  in_range("scale divisor", k, most_tokens);
  const auto works = [this](int64_t d) {
    return hidden % (d * heads) == 0 && sequence % d == 0 && vocabulary % d == 0 &&
           head_width % d == 0 && intermediate % d == 0 &&
           (positions != PositionKind::rotary || head_size() / d % 2 == 0);
  };
  if (!works(k)) {
    int64_t near = k;
    while (near > 1 && !works(near)) --near;
    const std::string next =
        near == 1 ? std::string("no scale below it works") : fmt::format("scale 1/{} works", near);
    const char* divisor = "the scale's divisor";
    divisible("hidden size", hidden, divisor, k, next);
    divisible("sequence length", sequence, divisor, k, next);
    divisible("vocabulary size", vocabulary, divisor, k, next);
    divisible("head size", head_width, divisor, k, next);
    divisible("intermediate size", intermediate, divisor, k, next);
    divisible(fmt::format("hidden size / {}", k), hidden / k, "attention heads", heads, next);
    divisible(fmt::format("head size / {}", k), head_size() / k, "the size of a rotated pair", 2,
              next);
  }
  ModelConfig model = *this;
  model.hidden /= k;
  model.head_width /= k;
  model.intermediate /= k;
  model.sequence /= k;
  model.vocabulary /= k;
  model.window = window > 0 ? std::max<int64_t>(window / k, 1) : 0;
  return model;
}

}  // namespace frugal::engine
