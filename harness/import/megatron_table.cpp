#include "harness/import/megatron_table.h"

#include <algorithm>

namespace frugal::harness {
namespace {

/// A scope in which lines say shortly how an argument is read.
struct MegatronFieldLines {
  using enum MegatronArgument::Reads;
  static const std::vector<MegatronArgument> all;
};

const std::vector<MegatronArgument> MegatronFieldLines::all = {
    // The model.
    {{"--num-layers", "--encoder-num-layers"}, "layers"},
    {{"--hidden-size"}, "hidden_size"},
    {{"--ffn-hidden-size"}, "intermediate_size", together},
    {{"--num-attention-heads"}, "attention_heads"},
    {{"--kv-channels"}, "head_size"},
    {{"--group-query-attention"}, "key_value_heads", together},
    {{"--num-query-groups"}, "key_value_heads", together},
    {{"--num-key-value-heads"}, "key_value_heads", together},
    {{"--seq-length", "--encoder-seq-length"}, "sequence_length"},
    {{"--max-position-embeddings"}, "", together},
    {{"--normalization"}, "norm", choice, {{"LayerNorm", "layer-norm"}, {"RMSNorm", "rms-norm"}}},
    {{"--norm-epsilon", "--layernorm-epsilon"}, "norm_epsilon"},
    {{"--swiglu"}, "mlp", present, {{"", "swiglu"}}},
    {{"--quick-geglu"},
     "mlp",
     present,
     {{"", "geglu"}},
     {},
     "its GELU is approximated by x sigmoid(1.702 x)"},
    {{"--glu-activation"}, "mlp", together},
    {{"--disable-bias-linear"}, "bias", together},
    {{"--add-qkv-bias"}, "bias", together},
    {{"--position-embedding-type"}, "positions", together},
    {{"--use-rotary-position-embeddings"}, "positions", together},
    {{"--no-position-embedding"}, "positions", together},
    {{"--rotary-base"}, "rotary", together},
    {{"--use-rope-scaling"}, "rotary", together},
    {{"--rope-scaling-factor"}, "rotary", together},
    {{"--rotary-seq-len-interpolation-factor"}, "rotary", together},
    {{"--untie-embeddings-and-output-weights"}, "tied_embeddings", present, {{"", "false"}}},
    {{"--window-size"}, "window", together},
    {{"--hidden-dropout"}, "dropout", together},
    {{"--attention-dropout"}, "dropout", together},
    {{"--vocab-size"}, "vocabulary_size", together},
    {{"--padded-vocab-size", "--pad-vocab-size-to"}, "vocabulary_size", together},
    {{"--make-vocab-size-divisible-by"}, "vocabulary_size", together},
    {{"--no-pad-vocab-size"}, "vocabulary_size", together},
    {{"--disable-pad-vocab-size"}, "vocabulary_size", together},
    {{"--vocab-extra-ids"}, "vocabulary_size", together},
    {{"--tokenizer-type"}, "vocabulary_size", together},
    // How ranks share the work.
    {{"--tensor-model-parallel-size", "--model-parallel-size"}, "tensor_parallel_size"},
    {{"--pipeline-model-parallel-size"}, "pipeline_parallel_size"},
    {{"--num-layers-per-virtual-pipeline-stage"}, "chunks", together},
    {{"--num-virtual-stages-per-pipeline-rank"}, "chunks", together},
    {{"--sequence-parallel"}, "sequence_parallel", together},
    {{"--context-parallel-size"}, "context_parallel_size"},
    {{"--cp-comm-type"}, "context", together},
    {{"--hierarchical-context-parallel-sizes"}, "ulysses_size", together},
    {{"--microbatch-group-size-per-virtual-pipeline-stage"}, "schedule", together},
    {{"--account-for-embedding-in-pipeline-split"}, "stage_layers", together},
    {{"--account-for-loss-in-pipeline-split"}, "stage_layers", together},
    {{"--pipeline-model-parallel-layout"}, "stage_layers", together},
    {{"--pp-partition-method"}, "stage_layers", together},
    {{"--decoder-first-pipeline-num-layers"}, "stage_layers", together},
    {{"--decoder-last-pipeline-num-layers"}, "stage_layers", together},
    {{"--use-distributed-optimizer"}, "shard", together},
    {{"--num-distributed-optimizer-instances"}, "shard_size", together},
    {{"--overlap-grad-reduce"}, "overlap_grad_reduce", together},
    {{"--use-torch-fsdp2"}, "shard", together},
    {{"--use-megatron-fsdp"}, "shard", together},
    {{"--use-custom-fsdp"}, "shard", together},
    {{"--data-parallel-sharding-strategy"}, "shard", together},
    {{"--zero-stage"}, "shard", together},
    {{"--micro-batch-size", "--batch-size"}, "microbatch_size"},
    {{"--global-batch-size"}, "microbatches", together},
    {{"--step-batch-size-schedule"}, "microbatches", together},
    // What trades memory for something else.
    {{"--recompute-activations"}, "recompute", together},
    {{"--recompute-granularity"}, "recompute", together},
    {{"--recompute-method", "--activations-checkpoint-method"}, "recompute", together},
    {{"--recompute-num-layers", "--activations-checkpoint-num-layers", "--checkpoint-num-layers"},
     "recompute",
     together},
    {{"--recompute-modules"}, "recompute", together},
    {{"--checkpoint-activations"}, "recompute", together},
    {{"--cpu-offloading-num-layers"}, "offload_layers", together},
    {{"--fine-grained-activation-offloading"}, "offload_modules", together},
    {{"--offload-modules"}, "offload_modules", together},
    {{"--attention-backend"}, "attention", together},
    {{"--use-flash-attn"}, "attention", together},
    {{"--transformer-impl"}, "attention", together},
    {{"--attention-softmax-in-fp32"}, "attention", together},
    {{"--apply-query-key-layer-scaling"}, "attention", together},
    {{"--cross-entropy-loss-fusion"}, "program", together},
    {{"--cross-entropy-fusion-impl"}, "program", together},
    {{"--defer-embedding-wgrad-compute"}, "", together},
    {{"--no-create-attention-mask-in-dataloader"}, "program", together},
    {{"--bert-no-binary-head"}, "program", together},
    {{"--fp16-lm-cross-entropy"}, "narrow_logits", present, {{"", "true"}}},
    {{"--grad-reduce-in-bf16"},
     "narrow_reduction",
     present,
     {{"", "true"}},
     {},
     "Megatron-LM also stores gradients in bf16, 2 bytes each; frugal stores float32, 4 bytes"},
    {{"--optimizer-cpu-offload"},
     "offload_optimizer",
     present,
     {{"", "true"}},
     {},
     "Megatron-LM steps on the processor; frugal brings the state to the device"},
    // Types and the optimizer.
    {{"--bf16"}, "type", together},
    {{"--fp16"}, "type", together},
    {{"--optimizer"}, "optimizer", choice, {{"adam", "adamw"}, {"sgd", "momentum"}}},
    {{"--sgd-momentum"}, "momentum", together},
    {{"--lr"}, "learning_rate"},
    {{"--weight-decay"}, "weight_decay", value, {}, "0.01"},
    {{"--clip-grad"}, "clip"},
    {{"--seed"}, "seed", value, {}, "1234"}};

}  // namespace

const std::vector<MegatronArgument>& megatron_fields() { return MegatronFieldLines::all; }

const MegatronArgument* find_megatron_field(std::string_view name) {
  for (const MegatronArgument& line : megatron_fields())
    if (std::find(line.names.begin(), line.names.end(), name) != line.names.end()) return &line;
  return nullptr;
}

std::vector<std::string> megatron_names() {
  std::vector<std::string> names;
  for (const MegatronArgument& line : megatron_fields())
    names.insert(names.end(), line.names.begin(), line.names.end());
  for (const auto* table : {&megatron_without_effect(), &megatron_values(), &megatron_missing(),
                            &megatron_other_models()})
    for (const KnownParts& line : *table)
      for (const std::string_view name : line.names)
        names.emplace_back(name.substr(0, name.find(' ')));
  for (const DependingParts& line : megatron_depending())
    names.insert(names.end(), line.parts.names.begin(), line.parts.names.end());
  return names;
}

}  // namespace frugal::harness
