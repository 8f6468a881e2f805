#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cli/files.h"
#include "harness/cli/flags.h"
#include "harness/settings/field.h"

namespace frugal::harness {

/// The flags that describe a training run and where it takes place, of those fields that a command
/// takes, with --config and --set.
class RunFlags {
 public:
  /// Whether --config and --set say the same.
  enum class Besides : uint8_t { nothing, config_and_set };
  /// Flags of these groups, and of these fields besides.
  explicit RunFlags(std::vector<Section> groups, std::vector<std::string> keys = {},
                    Besides besides = Besides::config_and_set)
      : groups_(std::move(groups)), keys_(std::move(keys)), besides_(besides) {}

  void add_to(Flags& flags);

  /// What was given, by flags, --set and --config; flags and --set go before the file. Throws
  /// InputError for what is given twice, and for what this command does not take.
  nlohmann::json given() const;
  /// The settings of the one run that was described. Throws InputError where there are several.
  RunSettings settings() const;
  /// The files that are read.
  std::vector<FlagFile> inputs(const RunSettings& settings) const;

 private:
  bool takes(const Field& field) const;

  std::vector<Section> groups_;
  std::vector<std::string> keys_;
  Besides besides_;
  std::string command_, config_file_;
  std::vector<std::string> assignments_;  // --set
  nlohmann::json by_flags_ = nlohmann::json::object();
};

/// What every command that trains takes.
inline const std::vector<Section> groups_of_a_training = {
    Section::model,        Section::length, Section::place,    Section::lone_rank, Section::layout,
    Section::own_schedule, Section::memory, Section::training, Section::steps};

}  // namespace frugal::harness
