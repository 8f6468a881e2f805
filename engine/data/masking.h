#pragma once
#include "engine/data/batch.h"

/// Masked-token objective of BERT (Devlin et al. 2019, arXiv:1810.04805, section 3.1): each
/// position is chosen independently, and the model predicts the token that was there. Most chosen
/// positions show the mask token, some a random one, and the others their own.
namespace frugal::engine::masking {

inline constexpr double chosen = 0.15;                 ///< of all positions
inline constexpr double masked = 0.8, replaced = 0.1;  ///< of those; the rest stays

/// The mask token: the vocabulary's last id, which is no byte's and no random token's.
int32_t token(const ModelConfig& model);

/// Randomness of masks, beside the sequence's number in the batch and the position in it.
/// Microbatches make no difference.
struct Draw {
  uint64_t seed = 0;
  uint32_t step = 0;
};
/// Draw for held-out text: one for every run, whatever its seed.
inline constexpr Draw held_out = {0, 0xffffffffU};

/// Masks the tokens of a batch. Labels become the tokens at the chosen positions, and are not
/// counted elsewhere. Random tokens are below `ids`.
void apply(Batch& batch, const RunConfig& config, const Draw& draw, int64_t ids);

}  // namespace frugal::engine::masking
