#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "engine/layer_modules.h"
#include "engine/model_config.h"
#include "engine/program.h"
#include "engine/schedule/schedule.h"
#include "kernels/types.h"

namespace frugal::engine {

struct RunConfig;
template <class T>
class Fields;

/// Activations that the backward pass computes again: nothing, some modules of each layer, each
/// layer from its input (korthikanti2022, section 5), or all that a stage of a pipeline has from
/// the stage's input (pipedream2bw2021, section 3.3).
enum class Recompute : uint8_t { none, selective, full, stage };
constexpr Names names_of(Recompute) { return {"none", "selective", "full", "stage"}; }

/// Ways to compute softmax(QKᵀ / √d) V: by operations of their own, which keep [s, s] per
/// head as the papers have it, or by one that never makes it (flash attention).
enum class AttentionKind : uint8_t { separate, fused };
constexpr Names names_of(AttentionKind) { return {"separate", "fused"}; }

/// Types of gradients and optimizer state where weights are narrower than float32: float32, with a
/// float32 master copy of the weights, or all in the weights' type without one, as mst2024 trains.
enum class Precision : uint8_t { mixed, pure };
constexpr Names names_of(Precision) { return {"mixed", "pure"}; }

/// Ways in which ranks that have a part of the sequence each attend over all of it: heads divided
/// among them meanwhile (DeepSpeed-Ulysses, arXiv:2309.14509), or keys and values passed around in
/// a ring (Liu et al. 2023, arXiv:2310.01889). With zigzag each rank of the ring has an early and a
/// late part, so that all compute as much of causal attention (Dubey et al. 2024, "The Llama 3 Herd
/// of Models", arXiv:2407.21783, section 3.3.2; Zhu's ring-flash-attention gave it the name).
enum class ContextKind : uint8_t { ulysses, ring, zigzag };
constexpr Names names_of(ContextKind) { return {"ulysses", "ring", "zigzag"}; }

/// State that data-parallel replicas divide among themselves (Rajbhandari et al. 2020, ZeRO):
/// nothing, the optimizer's state (stage 1), also gradients (stage 2), or also weights (stage 3).
enum class Shard : uint8_t { none, optimizer, gradients, weights };
constexpr Names names_of(Shard) { return {"none", "optimizer", "gradients", "weights"}; }

/// Time at which the stages of a pipeline learn the norm of the whole model's gradient, by which
/// they clip: before they step, for which all meet, or after it. Then each steps by the norm of the
/// stages before it and its own, goes on with the next batch, and steps anew once it learns that
/// the whole norm asks for it (Qi et al. 2024, "Zero Bubble Pipeline Parallelism",
/// arXiv:2401.10241, section 4: post-validation).
enum class StepValidation : uint8_t { before, after };
constexpr Names names_of(StepValidation) { return {"before", "after"}; }

/// A forward and a backward pass that a schedule makes together (Action::beside_next) hide
/// each other's communication (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", arXiv:2412.19437,
/// section 3.2.1): on; or they are made one after the other: off.
enum class PassOverlap : uint8_t { on, off };
constexpr Names names_of(PassOverlap) { return {"on", "off"}; }

/// Division of the model and the batch among ranks.
struct ParallelOptions {
  int tensor_parallel = 1;    ///< [t]
  int pipeline_parallel = 1;  ///< [p], stages
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  PassOverlap overlap_passes = PassOverlap::on;
  int chunks = 1;  ///< [v], parts of the model on each stage
  /// Layers of each part of the model, p · v of them in the model's order: of chunk 0 of each
  /// stage, of chunk 1, and so on. Empty: all have as many.
  std::vector<int64_t> stage_layers = {};
  int data_parallel = 1;  ///< [w], replicas

  /// Part of the model that each chunk of each stage is.
  PartLayout part_layout() const { return {pipeline_parallel, chunks, schedule.placement}; }

  static void describe(Fields<ParallelOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const ParallelOptions&) const = default;
};

/// State that replicas divide in place of copies, and sums of their gradients.
struct ShardOptions {
  /// Value of a number that follows from others.
  static constexpr int64_t by_rule = 0;

  Shard shard = Shard::none;
  /// Ranks next to each other that divide the state; other groups of the same weights have the
  /// same parts (hybrid sharding). 0: all ranks with the same weights.
  int shard_size = 0;
  /// Gradients are summed over replicas during the last backward pass of a batch, bucket by bucket,
  /// or behind it. None: RunConfig::overlaps_sums() says which.
  std::optional<bool> overlap_grad_reduce = std::nullopt;
  /// Elements of a bucket: as many as this, and what is left of the layer that reaches it.
  /// `by_rule`: bucket_elements().
  int64_t bucket_size = by_rule;

  static void describe(Fields<ShardOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const ShardOptions&) const = default;
};

/// Division of each sequence among ranks.
struct SequenceOptions {
  bool sequence_parallel = false;  ///< over the tensor-parallel group
  /// [c], ranks with all weights and a part of every sequence each.
  int context_parallel = 1;
  ContextKind context = ContextKind::ulysses;
  /// [u] Ulysses ranks at each position of a ring: these divide heads among them, and keys and
  /// values travel between their groups (Fang and Zhao 2024, "USP", arXiv:2405.07719). 0: none.
  int ulysses_size = 0;

  /// [u] Ranks that divide heads among them, and [r] groups of those in a ring: c = u · r.
  int head_ranks() const {
    return context == ContextKind::ulysses ? context_parallel : std::max(ulysses_size, 1);
  }
  int ring_ranks() const { return context_parallel / head_ranks(); }
  /// Ranks of a ring have an early and a late piece of the sequence each.
  bool has_two_pieces() const { return ring_ranks() > 1 && context == ContextKind::zigzag; }

  static void describe(Fields<SequenceOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const SequenceOptions&) const = default;
};

/// Activations that the backward pass computes again.
struct RecomputeOptions {
  Recompute recompute = Recompute::none;
  /// Modules whose outputs selective recomputation discards: by default the attention cores, which
  /// is the paper's.
  static constexpr LayerModules cores = {LayerModule::core_attention};
  LayerModules recompute_modules = cores;
  /// Layers next to each other of which full recomputation keeps the first one's input alone, so
  /// that all of them are computed again before their backward passes.
  int64_t recompute_group = 1;
  /// Layers of each stage, or chunk, that are recomputed, from its first on; the others keep all.
  /// 0: every one.
  int64_t recompute_layers = 0;
  /// Microbatches of a stage's in flight that are kept whole and not recomputed (korthikanti2022,
  /// appendix C).
  int64_t kept_microbatches = 0;

  /// Something of the layer with this number in its part of the model is computed again.
  bool recomputes_layer(int64_t index) const {
    return recompute_layers == 0 || index < recompute_layers;
  }
  /// The attention cores of every layer are recomputed, and nothing else.
  bool recomputes_cores_alone() const {
    return recompute == Recompute::selective && recompute_modules == cores && recompute_layers == 0;
  }

  static void describe(Fields<RecomputeOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const RecomputeOptions&) const = default;
};

/// Ways in which layers compute, and so what they keep from the forward to the backward pass.
struct ActivationOptions {
  AttentionKind attention = AttentionKind::separate;
  /// Dropout masks are kept, one byte per element, as the papers count them; otherwise they are
  /// regenerated.
  bool stored_masks = false;
  /// A stage keeps what it has sent until its backward pass, which does not need it
  /// (korthikanti2022, appendix B).
  bool keep_outputs = false;
  /// [M] Parts of a rank's sequence that the MLP, or the output head, computes one after the other
  /// (mst2024): mini-sequences. 1: all at once, `by_rule`: as many as the paper's rule says.
  int64_t mlp_chunks = 1, head_chunks = 1;
  /// Parts of a rank's vocabulary that the output head computes one after the other, so that logits
  /// never exist together; they differ by at most one token. 1: all at once.
  int64_t head_tiles = 1;

  static void describe(Fields<ActivationOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const ActivationOptions&) const = default;
};

/// Tensors in the host's memory.
struct OffloadOptions {
  /// Activations that layers keep are there from the forward to the backward pass.
  bool offload = false;
  /// Modules whose activations are: by default the inputs of layers that full recomputation keeps.
  static constexpr LayerModules inputs = {LayerModule::input};
  LayerModules offload_modules = inputs;
  /// Layers of each stage, or chunk, whose activations are, from its first on; those of the others
  /// stay on the device. 0: every one.
  int64_t offload_layers = 0;
  bool offload_optimizer = false;  ///< the optimizer's state is

  /// Activations of the layer with this number in its part of the model go to the host's memory.
  bool offloads_layer(int64_t index) const {
    return offload && (offload_layers == 0 || index < offload_layers);
  }
  /// Activations of this module do. The MLP's tensors include the activation's.
  bool offloads(LayerModule module) const {
    return offload && (offload_modules.has(module) || (module == LayerModule::activation &&
                                                       offload_modules.has(LayerModule::mlp)));
  }

  static void describe(Fields<OffloadOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const OffloadOptions&) const = default;
};

/// A batch, and the step that ends it.
struct BatchOptions {
  int64_t micro_batch = 1;   ///< [b], sequences
  int64_t microbatches = 1;  ///< [m], of a batch, that one pipeline accumulates
  /// A layer's weights are updated as soon as its backward pass has their gradient, which is then
  /// dropped.
  bool step_in_backward = false;
  StepValidation validate_steps = StepValidation::before;
  uint64_t seed = 1;  ///< of weights, dropout and batches

  /// Sequences of a microbatch, and microbatches of a batch, at most.
  static constexpr int64_t most_sequences = 1 << 16;

  static void describe(Fields<BatchOptions>& fields);
  void check(const RunConfig& run) const;
  bool operator==(const BatchOptions&) const = default;
};

/// Types that weights can have, by their names.
inline constexpr std::array weight_types = {DType::f32, DType::bf16, DType::f64};
std::vector<std::string> weight_type_names();
/// Requires one of the names.
DType weight_type(std::string_view name);

/// Types in which numbers are stored and summed.
struct NumericsOptions {
  /// Replicas sum their gradients in the type of the weights, rounded to it before.
  bool narrow_reduction = false;
  /// Logits have the type of the weights, and their gradient their place; otherwise they have
  /// accumulation type, as korthikanti2022 counts them. Statistics and losses always have it.
  bool narrow_logits = false;
  /// A step's first product overwrites a weight's gradient; otherwise all gradients are cleared
  /// before, and every product is added to them, as Megatron-LM does.
  bool overwrite_gradients = false;
  /// The product that makes a weight's gradient sums its bias's on the way; otherwise that takes a
  /// pass of its own over the output's gradient, or is part of its dropout's.
  bool fuse_bias_gradients = false;
  Precision precision = Precision::mixed;
  DType type = DType::f32;  ///< of weights and activations

  /// Weights are narrower than what they are rounded from, which the optimizer keeps.
  bool has_masters() const {
    return accumulation_type(type) != type && precision == Precision::mixed;
  }
  /// Type of optimizer state.
  DType state_type() const { return precision == Precision::pure ? type : accumulation_type(type); }

  static void describe(Fields<NumericsOptions>& fields);
  bool operator==(const NumericsOptions&) const = default;
};

/// Everything that decides what a run computes: a model, a struct of options for each concern, and
/// questions that several of them answer together.
struct RunConfig : ParallelOptions,
                   ShardOptions,
                   SequenceOptions,
                   RecomputeOptions,
                   ActivationOptions,
                   OffloadOptions,
                   BatchOptions,
                   NumericsOptions {
  ModelConfig model;
  /// Inefficiencies of another program to imitate; none by default.
  Program program = {};

  static void describe(Fields<RunConfig>& fields);
  bool operator==(const RunConfig&) const = default;

  /// mst2024, section 4.1: chunks of h tokens for the MLP, and ⌈v/h⌉ of them for the output head;
  /// never more than there are tokens.
  int64_t mlp_mini_sequences() const;
  int64_t head_mini_sequences() const;
  /// Tokens of a sequence that a tensor-parallel group has, and a rank in its regions: [s/c].
  int64_t group_sequence() const { return model.sequence / context_parallel; }
  /// Tokens per Ulysses group. Each of its ranks sees all of them while it computes attention:
  /// [s/r].
  int64_t ring_sequence() const { return model.sequence / ring_ranks(); }
  /// Length of a contiguous piece: [s/r]; with zigzag [s/2r].
  int64_t ring_piece() const { return ring_sequence() / (has_two_pieces() ? 2 : 1); }
  /// Tokens of a sequence that a rank has outside the regions.
  int64_t local_sequence() const {
    return group_sequence() / (sequence_parallel ? tensor_parallel : 1);
  }
  /// Passes that the schedule makes together are made so: ranks wait for each other within passes,
  /// so that there is something to hide.
  bool overlaps_passes() const {
    return overlap_passes == PassOverlap::on && (tensor_parallel > 1 || context_parallel > 1);
  }
  bool keeps_masks() const { return stored_masks || program.keeps_dropout_masks; }
  bool keeps_outputs() const { return keep_outputs || program.keeps_stage_outputs; }
  /// Type of gradients of weights.
  DType gradient_type() const { return program.weights.narrow_sums ? type : state_type(); }
  /// Modules whose activations some layer of some microbatch keeps.
  LayerModules kept_modules() const;
  /// Stages exchange messages with a neighbour, and compute on when all are there.
  bool exchanges_messages() const { return program.device.messages.kind == Messages::exchanged; }
  /// Stages step without meeting, and validate their steps later.
  bool validates_later() const {
    return validate_steps == StepValidation::after && pipeline_parallel > 1;
  }
  /// Gradients have memory only while they are needed.
  bool gradients_come_and_go() const {
    return step_in_backward || program.weights.gradients_come_and_go;
  }
  /// Ranks that divide state; 1: nothing is divided, or nobody is there to share with.
  int shard_ranks() const {
    if (shard == Shard::none) return 1;
    return shard_size > 0 ? shard_size : data_parallel * context_parallel;
  }
  /// A rank has a part of this alone, and others the rest.
  bool shards(Shard what) const { return shard_ranks() > 1 && shard >= what; }
  /// Gradients are summed over replicas in the backward pass that computes them.
  bool reduces_in_backward() const {
    return shards(Shard::gradients) || (shards(Shard::optimizer) && step_in_backward);
  }
  /// Type in which replicas sum gradients.
  DType sum_type() const { return narrow_reduction ? type : gradient_type(); }
  /// Sums over replicas begin in the last backward pass of a batch. By default they do where that
  /// takes no memory, of a schedule that flushes.
  bool overlaps_sums() const;
  /// A stage has one bucket: what slows passes that hand gradients on delays the stages before it,
  /// and while these are busy, a stage behind the first has time for its sums.
  bool sums_at_once(int stage) const {
    return program.optimizer.buckets == Buckets::own && bucket_size == by_rule && stage > 0 &&
           !schedule.splits_backward;
  }
  /// Elements of a bucket of this chunk of a stage, at least; a chunk's last one may have fewer.
  int64_t bucket_elements(int stage, int chunk) const;
  int ranks() const {
    return tensor_parallel * context_parallel * pipeline_parallel * data_parallel;
  }
  /// Microbatches of one batch over all replicas; global batch = micro_batch ·
  /// batch_microbatches().
  int64_t batch_microbatches() const { return microbatches * data_parallel; }

  /// Throws InputError that says which rule is broken: the model's, sizes positive and so small
  /// that all bytes fit an int64, heads, intermediate size and vocabulary divisible by t, sequence
  /// by the ranks that share it, …
  void validate() const;
};

}  // namespace frugal::engine
