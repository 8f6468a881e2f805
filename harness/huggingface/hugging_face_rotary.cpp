#include "harness/huggingface/hugging_face_rotary.h"

#include <optional>

namespace frugal::harness {
namespace {

/// Published models for millions of tokens have up to 4.5e10.
double rope_theta(const JsonObject& object) { return object.number("rope_theta", 1, 1e12); }

/// "rope_type" is the name of today, "type" of old files.
std::string kind_of(const JsonObject& object) {
  const char* key = object.has("rope_type") ? "rope_type" : "type";
  auto kind = object.optional<std::string>(key, "default");
  if (kind != "default" && kind != "linear" && kind != "llama3")
    object.fail(key, fmt::format("is \"{}\"; default, linear and llama3 are known", kind));
  if (object.optional<std::string>("type", kind) != kind)
    object.fail("type", fmt::format("is not \"{}\" as rope_type is; remove it", kind));
  return kind;
}

/// How frequencies are divided. Its base is the usual one, whatever the object says.
RotaryConfig scaling_of(const JsonObject& object) {
  object.allow_only({"rope_type", "type", "rope_theta", "factor", "low_freq_factor",
                     "high_freq_factor", "original_max_position_embeddings"});
  RotaryConfig rotary;
  const std::string kind = kind_of(object);
  if (kind == "default") {
    if (object.has("factor") && object.number("factor", 1, 1e6) != 1)
      object.fail("factor",
                  "is there, and the default kind divides by none; give rope_type linear "
                  "or llama3, or remove it");
    return rotary;
  }
  rotary.factor = object.number("factor", 1, 1e6);
  if (kind == "linear") return rotary;
  rotary.bands = true;
  rotary.low = object.number("low_freq_factor", 0, 1e6);
  rotary.high = object.number("high_freq_factor", 0, 1e6);
  rotary.original = object.integer("original_max_position_embeddings", 1);
  return rotary;
}

}  // namespace

RotaryConfig rotary_of(const HuggingFaceReader& in) {
  std::optional<double> base;
  if (in.has("rope_theta")) base = rope_theta(in.object());
  std::optional<RotaryConfig> scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!in.has(key)) continue;
    const JsonObject object = in.object().object(key);
    const RotaryConfig given = scaling_of(object);
    if (scaling && given != *scaling)
      in.object().fail(key, "is not what rope_scaling says; remove the one that does not hold");
    scaling = given;
    if (!object.has("rope_theta")) continue;
    const double here = rope_theta(object);
    if (base && here != *base)
      object.fail("rope_theta",
                  fmt::format("is {}, and elsewhere in the file it is {}; remove the one that does "
                              "not hold",
                              here, *base));
    base = here;
  }
  RotaryConfig rotary = scaling.value_or(RotaryConfig());
  rotary.base = base.value_or(rotary.base);
  return rotary;
}

nlohmann::json rope_scaling_of(const RotaryConfig& rotary) {
  if (rotary.bands)
    return {{"rope_type", "llama3"},
            {"factor", rotary.factor},
            {"low_freq_factor", rotary.low},
            {"high_freq_factor", rotary.high},
            {"original_max_position_embeddings", rotary.original}};
  if (rotary.factor != 1) return {{"rope_type", "linear"}, {"factor", rotary.factor}};
  return nullptr;
}

}  // namespace frugal::harness
