#pragma once
#include <optional>
#include <string>

#include "engine/train/optimizer.h"
#include "harness/cli/flags.h"
#include "harness/cli/model_flags.h"

namespace frugal {

/// The flags that trade memory for something else: what is computed in parts, computed again, kept
/// in the host's memory, dropped early, or stored in fewer bytes.
struct MemoryFlags {
  std::string recompute = "none", attention, mlp_chunks = "1", head_chunks = "1",
              precision = "mixed";
  int64_t head_tiles = 1;
  bool step_in_backward = false, offload = false, offload_optimizer = false, stored_masks = false;
  std::optional<double> clip;

  void add_to(Flags& flags);

  /// Throws InputError for numbers of mini-sequences that are none.
  void put_into(RunConfig& config) const;
  /// The greatest norm of gradients: none where weights step in backward. Throws InputError where
  /// one is given nevertheless.
  double clip_or_default() const;
  /// The flags that say this again: " --recompute full …".
  std::string text_of(const RunConfig& config) const;
};

}  // namespace frugal
