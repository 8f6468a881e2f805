#include "harness/settings/rotary_json.h"

#include "kernels/support/json_file.h"

namespace frugal::harness {

nlohmann::json to_json(const RotaryConfig& rotary) {
  nlohmann::json object = {{"base", rotary.base}};
  if (rotary.factor != RotaryConfig().factor) object["factor"] = rotary.factor;
  if (rotary.bands)
    object["bands"] = {{"low", rotary.low}, {"high", rotary.high}, {"original", rotary.original}};
  return object;
}

RotaryConfig rotary_of(const nlohmann::json& json, const std::string& where) {
  const JsonObject object(json, where, "rotary");
  object.allow_only({"base", "factor", "bands"});
  RotaryConfig rotary;
  rotary.base = object.number("base", 1, 1e12);
  if (object.has("factor")) rotary.factor = object.number("factor", 1, 1e6);
  if (object.has("bands")) {
    const JsonObject bands = object.object("bands");
    bands.allow_only({"low", "high", "original"});
    rotary.bands = true;
    rotary.low = bands.number("low", 0, 1e6);
    rotary.high = bands.number("high", 0, 1e6);
    rotary.original = bands.integer("original", 1);
  }
  return rotary;
}

}  // namespace frugal::harness
