#include "engine/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/config_rules.h"
#include "engine/program/behaviour.h"
#include "engine/schedule/schedules.h"
#include "kernels/dropout.h"
#include "kernels/support/error.h"

namespace frugal::engine {
using namespace rules;  // NOLINT: this file says which hold
namespace {

/// The largest tensors, with room for all copies of them that a run holds at a time.
void all_fit(const RunConfig& c) {
  // float64, 64 times: activations take 34 s b h bytes, weights 18 each with Adam.
  constexpr int64_t copies = int64_t{8} * 64;
  const ModelConfig& m = c.model;
  fits("the layers' weights (12 x layers x hidden size squared)",
       {copies, 12, m.layers, m.hidden, m.hidden});
  fits("the MLPs' weights (layers x hidden size x intermediate size)",
       {copies, 3, m.layers, m.hidden, m.intermediate_size()});
  fits("attention's weights (layers x hidden size x columns of queries, keys and values)",
       {copies, m.layers, m.hidden, m.qkv_size()});
  fits("an MLP's activations (sequence length x microbatch size x intermediate size)",
       {copies, m.sequence, c.micro_batch, m.intermediate_size()});
  fits("the embedding (vocabulary size x hidden size)", {copies, m.vocabulary, m.hidden});
  fits("the position embedding (sequence length x hidden size)", {copies, m.sequence, m.hidden});
  fits("the activations (layers x sequence length x microbatch size x hidden size)",
       {copies, m.layers, m.sequence, c.micro_batch, m.hidden});
  if (c.attention == AttentionKind::separate)
    fits("attention (layers x heads x sequence length squared x microbatch size)",
         {copies, m.layers, m.heads, m.sequence, m.sequence, c.micro_batch});
  else  // no scores, but a number for each of them
    fits("attention's positions (heads x sequence length squared x microbatch size)",
         {m.heads, m.sequence, m.sequence, c.micro_batch});
  fits("the logits (sequence length x microbatch size x vocabulary size)",
       {copies, m.sequence, c.micro_batch, m.vocabulary});
  fits("a step's tokens (microbatches x sequence length x microbatch size)",
       {copies, c.microbatches, m.sequence, c.micro_batch});
}

/// Ranks among whom keys and values travel.
void validate_ring(const RunConfig& c) {
  const ModelConfig& m = c.model;
  if (m.window > 0)
    throw InputError(fmt::format(
        "context is {}, and ring attention has no sliding windows, which the model has; choose "
        "--context ulysses",
        name_of(c.context)));
  if (c.context == ContextKind::ring) return;
  divisible("sequence length", m.sequence,
            c.head_ranks() > 1 ? "twice the ranks of a ring" : "twice the context-parallel size",
            int64_t{2} * c.ring_ranks(),
            "zigzag gives each rank two parts of it: choose sizes that fit, or --context ring");
  if (!m.causal)
    throw InputError(
        "context is zigzag and the model's attention is not causal, of which all ranks of a ring "
        "compute as much; choose --context ring");
}

/// Ranks among whom heads are divided.
void validate_ulysses(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const int64_t heads = m.heads / c.tensor_parallel;
  const int ranks = c.head_ranks();
  const bool ring = c.ring_ranks() > 1;
  const std::string_view what = ring ? "Ulysses size" : "context-parallel size";
  divisible("heads / tensor-parallel size", heads, what, ranks,
            ring ? "these ranks divide heads: choose a Ulysses size that divides them"
                 : "Ulysses divides heads among the ranks: choose a size that divides them, or "
                   "--context ring, and --ulysses-size for those that can");
  // A rank needs whole heads of keys and values, of which several may have the same.
  const int64_t groups = m.key_value_heads() / c.tensor_parallel;
  if (groups % ranks != 0 && ranks % groups != 0)
    throw InputError(fmt::format(
        "key/value heads / tensor-parallel size ({}) and {} ({}): one must be divisible by the "
        "other for Ulysses; choose another size{}",
        groups, what, ranks, ring ? "" : ", or --context ring"));
}

/// Ranks that divide heads within a ring.
void validate_ulysses_size(const RunConfig& c) {
  if (c.ulysses_size < 0 || c.ulysses_size > most_ranks)
    throw InputError(
        fmt::format("Ulysses size is {}; it must be from 1 to {}, or 0 where all ranks that share "
                    "a sequence divide heads, or none, as context says",
                    c.ulysses_size, most_ranks));
  if (c.ulysses_size == 0) return;
  if (c.context == ContextKind::ulysses)
    throw InputError(fmt::format(
        "Ulysses size is {} and context is ulysses, where all ranks that share a sequence divide "
        "heads; choose --context ring or zigzag, or leave the size out",
        c.ulysses_size));
  divisible("context-parallel size", c.context_parallel, "Ulysses size", c.ulysses_size,
            "choose sizes whose quotient is the ranks of a ring, or leave the Ulysses size out");
}

/// Ranks that share sequences.
void validate_context(const RunConfig& c) {
  in_range("context-parallel size", c.context_parallel, most_ranks);
  validate_ulysses_size(c);
  if (c.context_parallel == 1) return;
  const ModelConfig& m = c.model;
  divisible("sequence length", m.sequence, "context-parallel size", c.context_parallel,
            "choose a context-parallel size that divides it");
  if (c.attention != AttentionKind::fused)
    throw InputError(
        fmt::format("context-parallel size is {} and attention is {}, which keeps scores of the "
                    "whole sequence; "
                    "choose fused attention",
                    c.context_parallel, name_of(c.attention)));
  if (m.dropout > 0)
    throw InputError(fmt::format(
        "dropout is {} and context-parallel size is {}; sequences are shared without dropout only: "
        "give a model with dropout 0",
        m.dropout, c.context_parallel));
  if (c.head_ranks() > 1) validate_ulysses(c);
  if (c.ring_ranks() > 1) validate_ring(c);
}

/// Some models can have one kind alone.
void validate_attention(const RunConfig& c) {
  const bool only_fused = c.model.window > 0 || c.model.attention_softcap > 0;
  if (only_fused && c.attention == AttentionKind::separate)
    throw InputError(
        "attention is separate, which has neither sliding windows nor soft-caps of scores, and the "
        "model has; choose fused attention");
}

/// Updates within the backward pass: nothing else may need the gradients or the weights before.
void validate_step_in_backward(const RunConfig& c) {
  if (!c.step_in_backward) return;
  if (c.microbatches > 1)
    throw InputError(fmt::format(
        "step in backward is on and there are {} microbatches, whose gradients would have to be "
        "kept until the last; use 1, or leave it off",
        c.microbatches));
  if (c.pipeline_parallel > 1)
    throw InputError(fmt::format(
        "step in backward is on and pipeline-parallel size is {}; use 1, or leave it off",
        c.pipeline_parallel));
  const auto possible = [](const ScheduleKind& kind) {
    return kind.flushes && !kind.splits_backward && !kind.has_chunks;
  };
  if (possible(c.schedule)) return;
  throw InputError(fmt::format(
      "step in backward is on and the schedule is {}, which {}; choose one of {}, or leave it off",
      name_of(c.schedule),
      c.schedule.flushes ? "computes gradients of weights after the backward pass"
                         : "keeps weights of before a step beside those of after it",
      fmt::join(ScheduleKind::names(possible), ", ")));
}

/// Steps before the norm of all gradients is known: whoever corrects one has the batch's gradients
/// and nothing but forward passes behind it.
void validate_late_validation(const RunConfig& c) {
  if (c.validate_steps == StepValidation::before) return;
  const auto refuse = [](std::string_view what, std::string_view next) {
    throw InputError(
        fmt::format("steps are validated after they were made and {}; {}, or validate steps before",
                    what, next));
  };
  if (!c.schedule.flushes)
    refuse(fmt::format("the schedule is {}, which does not flush: backward passes of the next "
                       "batch follow a step at once",
                       name_of(c.schedule)),
           fmt::format("choose one of {}",
                       fmt::join(ScheduleKind::names(&ScheduleKind::flushes), ", ")));
  if (c.step_in_backward)
    refuse("step in backward is on, which has dropped the gradients by then",
           "leave step in backward off");
  if (c.exchanges_messages())
    refuse(fmt::format("the program is {}, whose stages wait for every message that they exchange",
                       name_of(c.program)),
           "choose another program");
}

/// Which stage has which layers.
void validate_stages(const RunConfig& c) {
  const int64_t parts = int64_t{c.pipeline_parallel} * c.chunks;
  if (c.stage_layers.empty()) {
    divisible("layers", c.model.layers, "stages x chunks of the pipeline", parts,
              "choose a pipeline-parallel size and chunks that divide it, or say how many each "
              "stage has");
    return;
  }
  if (std::ssize(c.stage_layers) != parts)
    throw InputError(fmt::format(
        "layers of stages are {} numbers and stages x chunks of the pipeline are {}; give one for "
        "each",
        c.stage_layers.size(), parts));
  int64_t sum = 0;
  for (const int64_t layers : c.stage_layers) {
    if (layers < 0 || layers > most_layers)
      throw InputError(
          fmt::format("layers of a stage is {}; it must be from 0 to {}", layers, most_layers));
    sum += layers;
  }
  if (sum != c.model.layers)
    throw InputError(
        fmt::format("layers of stages are {} together and the model has {}; give "
                    "numbers that add up to it",
                    sum, c.model.layers));
}

/// What is divided must be all there at some time.
void validate_shard(const RunConfig& c) {
  if (c.shard_size < 0 || (c.shard_size > 0 && c.shard == Shard::none))
    throw InputError(fmt::format(
        "shard size is {} and shard is {}; {}", c.shard_size, name_of(c.shard),
        c.shard_size < 0 ? "it must be from 1, or 0 for all ranks that have the same weights"
                         : "say what is divided (shard optimizer, gradients or weights), or leave "
                           "the size out"));
  if (c.shard_size > 0)
    divisible("data-parallel size x context-parallel size",
              int64_t{c.data_parallel} * c.context_parallel, "shard size", c.shard_size,
              "choose a size that divides them");
  if (!c.reduces_in_backward() || !c.schedule.splits_backward) return;
  throw InputError(fmt::format(
      "shard is {} and the schedule is {}, which computes gradients of weights in "
      "passes of their own, until which those of a layer would be kept whole; choose "
      "shard optimizer, or one of {}",
      name_of(c.shard), name_of(c.schedule),
      fmt::join(ScheduleKind::names([](const ScheduleKind& kind) { return !kind.splits_backward; }),
                ", ")));
}

/// Checks what replicas sum beside a backward pass.
void validate_grad_reduce(const RunConfig& c) {
  if (c.bucket_size < 0 || (c.bucket_size > 0 && !c.overlap_grad_reduce))
    throw InputError(fmt::format(
        "bucket size is {} and overlap grad reduce is {}; {}", c.bucket_size,
        c.overlap_grad_reduce ? "on" : "off",
        c.bucket_size < 0 ? "it must be from 1, or 0 for Megatron-LM's default"
                          : "sum gradients beside the backward pass, or leave the size out"));
  if (!c.overlap_grad_reduce) return;
  const auto refuse = [](std::string_view why) {
    throw InputError(fmt::format("overlap grad reduce is on and {}; leave it off", why));
  };
  if (c.data_parallel * c.context_parallel == 1)
    refuse("data-parallel size and context-parallel size are 1, so that nothing is summed");
  if (c.step_in_backward)
    refuse("step in backward is on, with which each weight steps behind a sum of its own");
  if (c.reduces_in_backward())
    refuse(fmt::format("shard is {}, which sums in every backward pass anyway", name_of(c.shard)));
  if (c.bucket_size > 0 && c.shards(Shard::optimizer))
    throw InputError(fmt::format(
        "bucket size is {} and shard is {}, with which a bucket is what replicas divide together: "
        "a layer, or a table; leave the size out",
        c.bucket_size, name_of(c.shard)));
}

/// What is computed one part after the other.
void validate_mini_sequences(const RunConfig& c) {
  const auto chunks = [](std::string_view what, int64_t value) {
    if (value < 0 || value > most_tokens)
      throw InputError(
          fmt::format("mini-sequences of {} is {}; it must be from 1 to {}, or 0 for "
                      "as many as the paper's rule says",
                      what, value, most_tokens));
  };
  chunks("the MLP", c.mlp_chunks);
  chunks("the output head", c.head_chunks);
  in_range("parts of the vocabulary in the output head", c.head_tiles,
           c.model.vocabulary / c.tensor_parallel);
}

}  // namespace

std::string_view name_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
    case Recompute::stage:
      return "stage";
  }
  return "?";
}

std::string_view name_of(AttentionKind attention) {
  return attention == AttentionKind::fused ? "fused" : "separate";
}

std::string_view name_of(Precision precision) {
  return precision == Precision::pure ? "pure" : "mixed";
}

std::string_view name_of(StepValidation validation) {
  return validation == StepValidation::after ? "after" : "before";
}

std::string_view name_of(PassOverlap overlap) { return overlap == PassOverlap::on ? "on" : "off"; }

std::string_view name_of(Shard shard) {
  switch (shard) {
    case Shard::none:
      return "none";
    case Shard::optimizer:
      return "optimizer";
    case Shard::gradients:
      return "gradients";
    case Shard::weights:
      return "weights";
  }
  return "?";
}

std::string_view name_of(ContextKind context) {
  switch (context) {
    case ContextKind::ulysses:
      return "ulysses";
    case ContextKind::ring:
      return "ring";
    case ContextKind::zigzag:
      return "zigzag";
  }
  return "?";
}

int64_t RunConfig::mlp_mini_sequences() const {
  const int64_t rule = (group_sequence() + model.hidden - 1) / model.hidden;
  return std::clamp<int64_t>(mlp_chunks == by_rule ? rule : mlp_chunks, 1, local_sequence());
}

int64_t RunConfig::head_mini_sequences() const {
  const int64_t rule = (model.vocabulary + model.hidden - 1) / model.hidden;
  return std::clamp<int64_t>(head_chunks == by_rule ? rule : head_chunks, 1, group_sequence());
}

void RunConfig::validate() const {
  model.validate();
  in_range("tensor-parallel size", tensor_parallel, most_ranks);
  in_range("microbatch size", micro_batch, most_sequences);
  in_range("microbatches", microbatches, most_sequences);
  in_range("pipeline-parallel size", pipeline_parallel, most_ranks);
  in_range("chunks of a stage", chunks, most_layers);
  in_range("data-parallel size", data_parallel, most_ranks);
  if (kept_microbatches < 0 || kept_microbatches > most_sequences)
    throw InputError(fmt::format("microbatches kept whole is {}; it must be from 0 to {}",
                                 kept_microbatches, most_sequences));
  if (type != DType::f32 && type != DType::bf16 && type != DType::f64)
    throw InputError(fmt::format("type is {}; it must be f32, bf16 or f64", name_of(type)));
  validate_attention(*this);
  const char* next = "choose a tensor-parallel size that divides it";
  const char* t = "tensor-parallel size";
  divisible("heads", model.heads, t, tensor_parallel, next);
  divisible("key/value heads", model.key_value_heads(), t, tensor_parallel, next);
  divisible("intermediate size", model.intermediate_size(), t, tensor_parallel, next);
  divisible("vocabulary size", model.vocabulary, t, tensor_parallel, next);
  validate_stages(*this);
  ScheduleShape{
      .stages = pipeline_parallel, .chunks = chunks, .microbatches = static_cast<int>(microbatches)}
      .validate(schedule);
  if (chunks > 1 && pipeline_parallel == 1)
    throw InputError(
        fmt::format("chunks of a stage is {} and there is one stage; give a pipeline-parallel size "
                    "of at least 2, or leave the chunks out",
                    chunks));
  if (kept_microbatches > 0 && recompute == Recompute::none)
    throw InputError(
        fmt::format("microbatches kept whole is {} and recompute is none, which keeps all; choose "
                    "what is computed again, or leave them out",
                    kept_microbatches));
  validate_recompute(*this);
  validate_context(*this);
  if (sequence_parallel)
    divisible("sequence length", group_sequence(), t, tensor_parallel,
              "choose a sequence length or tensor-parallel size that fits, or leave sequence "
              "parallelism off");
  validate_mini_sequences(*this);
  validate_offload(*this);
  validate_step_in_backward(*this);
  validate_late_validation(*this);
  validate_shard(*this);
  validate_grad_reduce(*this);
  check_behaviours(*this);
  all_fit(*this);
}

}  // namespace frugal::engine
