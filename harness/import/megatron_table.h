#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/import/imported.h"

namespace frugal::harness {

/// One of Megatron-LM's arguments (megatron/training/arguments.py) that a field of frugal's has.
/// What the tables say of it is as of commit d98e8a64ddf3 of NVIDIA/Megatron-LM; older names stand
/// beside today's.
struct MegatronArgument {
  enum class Reads : uint8_t {
    value,    ///< its text is the field's
    choice,   ///< `texts` has the field's text for each of its own
    present,  ///< it is there: the field has the first of `texts`
    together  ///< with others (megatron_reader.h)
  };
  std::vector<std::string_view> names;  ///< today's first
  std::string_view key;                 ///< of the field; empty where several follow from it
  Reads reads = Reads::value;
  std::vector<std::pair<std::string_view, std::string_view>> texts = {};
  /// The field's text where the argument is not there; empty: frugal's own default is the same.
  std::string_view otherwise = {};
  std::string_view note = {};  ///< how the field differs from it
};

/// A line for each argument that a field has.
const std::vector<MegatronArgument>& megatron_fields();
/// Arguments that change neither memory nor time of a training step, whatever their value; why.
const std::vector<KnownParts>& megatron_without_effect();
/// Arguments without effect on memory and time as "--name value", or as a bare name; why.
const std::vector<KnownParts>& megatron_values();
/// Arguments that frugal does not have, with what they would change.
const std::vector<KnownParts>& megatron_missing();
/// Arguments that make another model, which frugal does not have.
const std::vector<KnownParts>& megatron_other_models();

/// Arguments that say something only where one of `on` is there: an argument, or with that value.
struct DependingParts {
  std::vector<std::string_view> on;
  KnownParts parts;
};
const std::vector<DependingParts>& megatron_depending();

/// The line of an argument; null where there is none.
const MegatronArgument* find_megatron_field(std::string_view name);
/// All names of the tables.
std::vector<std::string> megatron_names();

}  // namespace frugal::harness
