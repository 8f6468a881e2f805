#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/config.h"
#include "engine/optimizer/train_config.h"
#include "harness/place/target.h"

namespace frugal::harness {

/// Files that a training reads and writes, and its evaluations.
struct EvaluationOptions {
  std::string text, load_weights;  ///< files; empty: none
  int64_t eval_every = 0;          ///< steps; 0: at the end only
  int64_t last_words = 0;          ///< passages (LastWords); 0: none
  std::string checkpoint, resume;  ///< folders; empty: none
  int64_t checkpoint_every = 0;    ///< steps; 0: at the end only

  static void describe(Fields<EvaluationOptions>& fields);
};

/// A training run and its place, as a user gives them. Members that flags or files can set are
/// described once, by their structs (engine/options/fields.h).
struct RunSettings : EvaluationOptions {
  std::string model;  ///< a name, a file or a folder; empty: `config.model` says all of it
  int64_t scale = 1;
  /// `config.model` has what replaces the model's own values, where it was given.
  RunConfig config;
  TrainConfig train;
  TargetOptions place{.on = "virtual"};
  std::string schedule_file;  ///< empty: none
  /// The JSON values that were given, by the keys of their fields; all else is as it is by default.
  nlohmann::json given = nlohmann::json::object();

  bool is_given(std::string_view key) const { return given.contains(key); }

  static void describe(Fields<RunSettings>& fields);
};

/// The settings that these values make, by the keys of fields. `where` begins the messages: "" or
/// "FILE: ". Throws InputError for a key that is no field's, with the nearest that is, and for a
/// value that is not allowed.
RunSettings settings_of(const nlohmann::json& given, const std::string& where = "");

/// The model with given values in place of its own, by the keys of fields. Where one differs, its
/// name ends in a star. Throws InputError where a size that the model states follows from another
/// that is replaced alone: the intermediate size beside another hidden size.
ModelConfig with_values(const ModelConfig& model, const nlohmann::json& given);

/// The model that the settings name, with_values() of theirs, or describe, before it is divided by
/// `scale`. Throws InputError where there is none.
ModelConfig unscaled_model(const RunSettings& settings);

}  // namespace frugal::harness
