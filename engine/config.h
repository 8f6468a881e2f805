#pragma once
#include <string>

#include "engine/schedule/schedule.h"
#include "kernels/types.h"

namespace frugal {

/// What a model learns to tell: the token that follows (GPT), or those that are hidden (BERT).
enum class Objective : uint8_t { next_token, masked_token };
std::string_view name_of(Objective objective);

/// A transformer. Symbols in brackets are the papers'.
struct ModelConfig {
  std::string name;
  int64_t layers = 0;      ///< [L]
  int64_t hidden = 0;      ///< [h]
  int64_t heads = 0;       ///< [a]
  int64_t sequence = 0;    ///< [s], tokens
  int64_t vocabulary = 0;  ///< [v]
  double dropout = 0.1;    ///< probability, of attention and of hidden states
  bool causal = true;      ///< whether a position sees no later one
  Objective objective = Objective::next_token;

  int64_t head_size() const { return hidden / heads; }
  /// h, s and v divided by k; L and a kept, so that a·s/h, s/h and v/(hL) stay what they were.
  /// Throws InputError where k does not divide them, or the heads what is left of h; it names the
  /// nearest smaller scale that works.
  ModelConfig scaled(int64_t k) const;
};

/// What is not kept from the forward pass but computed again in the backward pass: nothing, the
/// attention cores, each layer from its input (korthikanti2022, section 5), or all that a stage of
/// a pipeline has from the stage's input (pipedream2bw2021, section 3.3).
enum class Recompute : uint8_t { none, selective, full, stage };
std::string_view name_of(Recompute recompute);

/// How attention computes softmax(QKᵀ / √d) V: by operations of their own, which keep [s, s] per
/// head as the papers have it, or by one that never makes it (flash attention).
enum class AttentionKind : uint8_t { separate, fused };
std::string_view name_of(AttentionKind attention);

/// Everything that decides what a run computes.
struct RunConfig {
  /// Sequences of a microbatch, and microbatches of a batch.
  static constexpr int64_t most_sequences = 1 << 16;

  ModelConfig model;
  int tensor_parallel = 1;         ///< [t]
  bool sequence_parallel = false;  ///< over the tensor-parallel group
  int pipeline_parallel = 1;       ///< [p], stages
  int chunks = 1;         ///< [v], parts of the model on each stage, of the interleaved schedule
  int data_parallel = 1;  ///< [w], replicas
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  Recompute recompute = Recompute::none;
  AttentionKind attention = AttentionKind::separate;  ///< fused: not with selective recomputation
  /// Whether dropout masks are kept, one byte per element, as the papers count them; otherwise they
  /// are regenerated.
  bool stored_masks = false;
  DType type = DType::f32;   ///< of weights and activations
  int64_t micro_batch = 1;   ///< [b], sequences
  int64_t microbatches = 1;  ///< [m], of a batch, that one pipeline accumulates
  /// Whether a stage keeps what it has sent until its backward pass has been made, which does not
  /// need it (korthikanti2022, appendix B).
  bool keep_outputs = false;
  /// Of each stage's microbatches in flight, so many that are kept whole and not recomputed
  /// (korthikanti2022, appendix C).
  int64_t kept_microbatches = 0;
  uint64_t seed = 1;

  int ranks() const { return tensor_parallel * pipeline_parallel * data_parallel; }
  /// Microbatches of one batch over all replicas; global batch = micro_batch ·
  /// batch_microbatches().
  int64_t batch_microbatches() const { return microbatches * data_parallel; }

  /// Throws InputError that says which rule is broken: sizes positive and so small that all
  /// bytes fit an int64, hidden divisible by heads, heads, 4h and vocabulary by t, sequence by t
  /// under sequence parallelism, …
  void validate() const;
};

}  // namespace frugal
