#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/optimizer/train_config.h"
#include "engine/schedule/schedule.h"
#include "harness/place/target.h"
#include "harness/record/cell.h"
#include "kernels/support/json_file.h"

/// Enumerations by the names they have in JSON and on the command line (name_of()).
namespace frugal::harness {

template <class E>
inline constexpr int enumerators = 0;
template <>
inline constexpr int enumerators<Source> = 3;
template <>
inline constexpr int enumerators<Status> = 7;
template <>
inline constexpr int enumerators<Objective> = 2;
template <>
inline constexpr int enumerators<Recompute> = 4;
template <>
inline constexpr int enumerators<LayerModule> = 8;
template <>
inline constexpr int enumerators<AttentionKind> = 2;
template <>
inline constexpr int enumerators<NormKind> = 2;
template <>
inline constexpr int enumerators<MlpKind> = 3;
template <>
inline constexpr int enumerators<PositionKind> = 2;
template <>
inline constexpr int enumerators<BiasKind> = 3;
template <>
inline constexpr int enumerators<Precision> = 2;
template <>
inline constexpr int enumerators<ContextKind> = 3;
template <>
inline constexpr int enumerators<Shard> = 4;
template <>
inline constexpr int enumerators<StepValidation> = 2;
template <>
inline constexpr int enumerators<PassOverlap> = 2;
template <>
inline constexpr int enumerators<OptimizerKind> = 4;
template <>
inline constexpr int enumerators<RanksAs> = 2;
template <>
inline constexpr int enumerators<Transport> = 2;
template <>
inline constexpr int enumerators<DType> = 3;  // those that weights can have

template <class E>
std::vector<std::string> all_names() {
  static_assert(enumerators<E> > 0, "how many there are stands above");
  std::vector<std::string> names;
  for (int i = 0; i < enumerators<E>; ++i) names.emplace_back(name_of(static_cast<E>(i)));
  return names;
}

template <>
inline std::vector<std::string> all_names<ScheduleKind>() {
  return ScheduleKind::names();
}

template <class E>
std::optional<E> from_name(std::string_view name) {
  for (int i = 0; i < enumerators<E>; ++i)
    if (name_of(static_cast<E>(i)) == name) return static_cast<E>(i);
  return std::nullopt;
}

template <>
inline std::optional<ScheduleKind> from_name<ScheduleKind>(std::string_view name) {
  return schedule_kind(name);
}

template <>
inline std::optional<LayerModules> from_name<LayerModules>(std::string_view name) {
  return layer_modules(name);
}

/// The enumerator that a key of a JSON object names; throws InputError that lists those there are.
template <class E>
E named(const JsonObject& object, std::string_view key) {
  const auto name = object.require<std::string>(key);
  if (const auto value = from_name<E>(name)) return *value;
  object.fail(
      key, fmt::format("is \"{}\"; it must be one of {}", name, fmt::join(all_names<E>(), ", ")));
}

}  // namespace frugal::harness
