#pragma once
#include "tests/engine/support.h"

namespace frugal::testing {

/// Of the Llama family, with fewer heads of keys and values than some runs have ranks.
inline RunConfig small_llama() {
  RunConfig c;
  c.model = {.name = "test",
             .layers = 2,
             .hidden = 48,
             .heads = 8,
             .sequence = 32,
             .vocabulary = 40,
             .dropout = 0,
             .kv_heads = 2,
             .head_width = 8,
             .intermediate = 80,
             .norm = NormKind::rms,
             .mlp = MlpKind::swiglu,
             .bias = BiasKind::none,
             .positions = PositionKind::rotary,
             .tied = false};
  c.attention = AttentionKind::fused;
  c.micro_batch = 2;
  c.seed = 7;
  return c;
}

}  // namespace frugal::testing
