#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// What another program's configuration says in frugal's fields, and what of it they do not say.
/// Nothing of it is left out: each of its parts stands in one of the lists.
struct Imported {
  /// A part of it, as it stands there, and what became of it.
  struct Part {
    std::string said;  ///< "--num-layers 96"
    std::string what;  ///< "layers=96"; a reason; what it would change
  };

  std::string format;  ///< "megatron"
  /// By the keys of fields (harness/settings/field.h).
  nlohmann::json given = nlohmann::json::object();
  /// Those that stand beside the file, and take precedence: what the file says of them is `same`.
  nlohmann::json fixed = nlohmann::json::object();
  std::vector<Part> mapped;           ///< to fields, which `what` has
  std::vector<Part> same;             ///< changes neither memory nor time of a step: why
  std::vector<Part> missing;          ///< what frugal does not have: what it would change
  std::vector<Part> unknown;          ///< what nobody knows: the nearest names that are known
  std::vector<Part> assumed;          ///< fields that it does not say: by which default
  std::vector<std::string> left_out;  ///< what of a script was not followed, in words
  /// The number of the other program that the run's peak stands for; empty: none.
  std::string predicts;
  /// What makes another model of it than frugal has: such a model is not run.
  std::vector<std::string> other_model;

  /// From here on fields have these values, whatever is added.
  void fix(const nlohmann::json& values);
  void add(const std::string& said, const std::string& key, const nlohmann::json& value,
           const std::string& note = "");
  void assume(const std::string& key, const nlohmann::json& value, const std::string& why);
};

/// Parts of a configuration by their names, or by "beginning*", and what is said of all of them.
struct KnownParts {
  std::vector<std::string_view> names;
  std::string_view what;
};
/// The line that has a name; null where there is none.
const KnownParts* find_known(const std::vector<KnownParts>& all, std::string_view name);

/// The product of numbers from 0 on; the largest number there is where it is above that.
int64_t bounded_product(std::initializer_list<int64_t> factors);

/// What is known besides a file.
struct ImportOptions {
  std::map<std::string, std::string> variables;  ///< of a shell script, before its own
  std::optional<int64_t> launch = {};            ///< which of a script's, from 1 on
  std::optional<int64_t> ranks = {};             ///< that take part
  std::optional<int64_t> global_batch = {};      ///< sequences of a step, of all replicas
  /// Fields that are given beside it, by their keys: they go before it, and a part of it that only
  /// they make complete asks for them.
  nlohmann::json given = nlohmann::json::object();
};

/// The formats' names: megatron, torchtitan, deepspeed.
std::vector<std::string> import_formats();
/// By the text alone: JSON is DeepSpeed's, TOML torchtitan's, all else arguments. Throws InputError
/// for what is known to be something else, a model's config.json or frugal's own configuration,
/// with the command that reads it. `file` is what messages call the text.
std::string import_format_of(std::string_view text, const std::string& file);

/// Reads a text. `file` is what messages call it. Throws InputError for what is no such text, and
/// for a value that is wrong or missing, with what to give for it.
Imported import_configuration(const std::string& format, const std::string& text,
                              const std::string& file, const ImportOptions& options);
/// Arguments of Megatron-LM.
struct ArgumentList;
Imported import_megatron(const ArgumentList& list, const std::string& file,
                         const ImportOptions& options);

}  // namespace frugal::harness
