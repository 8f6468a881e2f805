#pragma once
#include "engine/config.h"
#include "harness/cli/flags.h"

namespace frugal {

/// The flags that say which model a command is about.
struct ModelFlags {
  std::string name;                                                    ///< --model
  std::optional<int64_t> layers, hidden, heads, sequence, vocabulary;  ///< its own otherwise
  std::optional<double> dropout;
  int64_t scale = 1;

  void add(Flags& flags);
  /// The model with these sizes, before it is divided by `scale`. Throws InputError, also where
  /// --model is missing.
  ModelConfig unscaled() const;
  /// The flags that were given beside --model and --scale, for a command that does the same: each
  /// with a space before it.
  std::string changes() const;
};

}  // namespace frugal
