#pragma once
#include <optional>
#include <string>

#include "engine/train/optimizer.h"
#include "harness/cli/flags.h"
#include "harness/cli/model_flags.h"

namespace frugal {

/// Where --attention is not given: fused where a model has rotary positions, because those are
/// trained on sequences whose scores have no place. Selective recomputation is of separate
/// attention.
AttentionKind default_attention(const ModelConfig& model, Recompute recompute);
inline constexpr const char* attention_help =
    "Fused attention keeps no scores; not with --recompute selective. Otherwise fused for models "
    "with rotary positions, separate for others";

/// The flags that trade memory for something else: what is computed in parts, computed again, kept
/// in the host's memory, dropped early, or stored in fewer bytes.
struct MemoryFlags {
  std::string recompute = "none", attention, mlp_chunks = "1", head_chunks = "1",
              precision = "mixed";
  int64_t head_tiles = 1;
  bool step_in_backward = false, offload = false, offload_optimizer = false, stored_masks = false;
  bool narrow_reduction = false, narrow_logits = false, overwrite_gradients = false;
  std::optional<double> clip;

  void add_to(Flags& flags);

  /// Into a configuration that has its model and type. Throws InputError for numbers of
  /// mini-sequences that are none, and for a precision that such a type has not.
  void put_into(RunConfig& config) const;
  /// The greatest norm of gradients: none where weights step in backward. Throws InputError where
  /// one is given nevertheless.
  double clip_or_default() const;
  /// The flags that say this again: " --recompute full …".
  std::string text_of(const RunConfig& config) const;
};

}  // namespace frugal
