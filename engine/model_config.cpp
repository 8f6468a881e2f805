#include "engine/model_config.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/config_rules.h"
#include "kernels/dropout.h"

namespace frugal::engine {
using namespace rules;  // NOLINT: this file says which hold

std::string_view name_of(Objective objective) {
  return objective == Objective::masked_token ? "masked-token" : "next-token";
}

std::string_view name_of(NormKind norm) {
  return norm == NormKind::rms ? "rms-norm" : "layer-norm";
}

std::string_view name_of(MlpKind mlp) {
  switch (mlp) {
    case MlpKind::gelu:
      return "gelu";
    case MlpKind::swiglu:
      return "swiglu";
    case MlpKind::geglu:
      return "geglu";
  }
  return "?";
}

std::string_view name_of(PositionKind positions) {
  return positions == PositionKind::rotary ? "rotary" : "learned";
}

std::string_view name_of(BiasKind bias) {
  switch (bias) {
    case BiasKind::all:
      return "all";
    case BiasKind::qkv:
      return "qkv";
    case BiasKind::none:
      return "none";
  }
  return "?";
}

namespace {

void not_negative(std::string_view what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    throw InputError(fmt::format("{} is {}; it must be 0 or above, and finite", what, value));
}

/// A size that 0 stands for another one of.
void optional(std::string_view what, int64_t value, std::string_view otherwise) {
  if (value < 0)
    throw InputError(
        fmt::format("{} is {}; it must be at least 1, or 0 for {}", what, value, otherwise));
}

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

}  // namespace

void ModelConfig::validate() const {
  in_range("layers", layers, most_layers);
  in_range("hidden size", hidden, most_hidden);
  in_range("attention heads", heads, most_hidden);
  in_range("sequence length", sequence, most_tokens);
  in_range("vocabulary size", vocabulary, most_tokens);
  optional("head size", head_width, "hidden size / attention heads");
  optional("key/value heads", kv_heads, "attention heads");
  optional("intermediate size", intermediate, "4 x hidden size");
  if (head_width == 0)
    divisible("hidden size", hidden, "attention heads", heads,
              "choose a number of heads that divides it");
  in_range("head size", head_size(), most_hidden);
  in_range("key/value heads", key_value_heads(), most_hidden);
  divisible("attention heads", heads, "key/value heads", key_value_heads(),
            "choose a number of key/value heads that divides it");
  in_range("intermediate size", intermediate_size(), 8 * most_hidden);
  in_range("window period", window_period, most_layers);
  if (window < 0 || window > most_tokens)
    throw InputError(
        fmt::format("window is {}; it must be from 0 (none) to {}", window, most_tokens));
  if (window > 0 && !causal)
    throw InputError(
        fmt::format("window is {} and causal is false; windows look back only", window));
  not_negative("norm epsilon", norm_epsilon);
  not_negative("query scale", query_scale);
  not_negative("attention soft-cap", attention_softcap);
  not_negative("logit soft-cap", logit_softcap);
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
