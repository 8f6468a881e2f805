#include "engine/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>

#include "engine/schedule/schedules.h"
#include "kernels/dropout.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

void divisible(std::string_view what, int64_t value, std::string_view by, int64_t divisor,
               std::string_view next) {
  if (value % divisor != 0)
    throw InputError(
        fmt::format("{} ({}) must be divisible by {} ({}); {}", what, value, by, divisor, next));
}

void in_range(std::string_view what, int64_t value, int64_t high) {
  if (value < 1 || value > high)
    throw InputError(fmt::format("{} is {}; it must be from 1 to {}", what, value, high));
}

/// Far beyond any model there is; together with fits() they keep every size within int64.
constexpr int64_t most_layers = 1 << 16, most_hidden = 1 << 20, most_tokens = 1 << 24,
                  most_ranks = 1 << 16;

/// Refuses a size in bytes that is the product of these where it has no place in an int64.
void fits(std::string_view what, std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product))
      throw InputError(
          fmt::format("{} would take {} bytes, and sizes must stay below 2^63 bytes; choose "
                      "smaller ones",
                      what, fmt::join(factors, " x ")));
}

/// The largest tensors, with room for all copies of them that a run holds at a time.
void all_fit(const RunConfig& c) {
  // float64, 64 times: activations take 34 s b h bytes, weights 18 each with Adam.
  constexpr int64_t copies = int64_t{8} * 64;
  const ModelConfig& m = c.model;
  fits("the layers' weights (12 x layers x hidden size squared)",
       {copies, 12, m.layers, m.hidden, m.hidden});
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

}  // namespace

std::string_view name_of(Objective objective) {
  return objective == Objective::masked_token ? "masked-token" : "next-token";
}

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

ModelConfig ModelConfig::scaled(int64_t k) const {
  in_range("scale divisor", k, most_tokens);
  const auto works = [this](int64_t d) {
    return hidden % (d * heads) == 0 && sequence % d == 0 && vocabulary % d == 0;
  };
  if (!works(k)) {
    int64_t near = k;
    while (near > 1 && !works(near)) --near;
    const std::string next =
        near == 1 ? std::string("no scale below it works") : fmt::format("scale 1/{} works", near);
    const char* divisor = "the scale's divisor";
    divisible("hidden size", hidden, divisor, k, next);
    divisible("sequence length", sequence, divisor, k, next);
    divisible("vocabulary size", vocabulary, divisor, k, next);
    divisible(fmt::format("hidden size / {}", k), hidden / k, "attention heads", heads, next);
  }
  ModelConfig model = *this;
  model.hidden /= k;
  model.sequence /= k;
  model.vocabulary /= k;
  return model;
}

void RunConfig::validate() const {
  in_range("layers", model.layers, most_layers);
  in_range("hidden size", model.hidden, most_hidden);
  in_range("attention heads", model.heads, most_hidden);
  in_range("sequence length", model.sequence, most_tokens);
  in_range("vocabulary size", model.vocabulary, most_tokens);
  if (model.objective == Objective::masked_token && model.vocabulary == 1)
    throw InputError(
        "vocabulary size is 1; the masked-token objective needs an id for the mask token, and one "
        "for a token");
  in_range("tensor-parallel size", tensor_parallel, most_ranks);
  in_range("microbatch size", micro_batch, most_sequences);
  in_range("microbatches", microbatches, most_sequences);
  in_range("pipeline-parallel size", pipeline_parallel, most_ranks);
  in_range("chunks of a stage", chunks, most_layers);
  in_range("data-parallel size", data_parallel, most_ranks);
  if (kept_microbatches < 0 || kept_microbatches > most_sequences)
    throw InputError(fmt::format("microbatches kept whole is {}; it must be from 0 to {}",
                                 kept_microbatches, most_sequences));
  if (!Dropout::possible(static_cast<float>(model.dropout)))
    throw InputError(fmt::format(
        "dropout is {}; it must be 0 or, rounded to 1/65536, above 0 and below 1", model.dropout));
  if (type != DType::f32 && type != DType::bf16 && type != DType::f64)
    throw InputError(fmt::format("type is {}; it must be f32, bf16 or f64", name_of(type)));
  if (attention == AttentionKind::fused && recompute == Recompute::selective)
    throw InputError(
        "recompute is selective and attention is fused, which keeps nothing that selective "
        "recomputation would drop; choose recompute none or full, or separate attention");
  const char* next = "choose a tensor-parallel size that divides it";
  const char* t = "tensor-parallel size";
  divisible("hidden size", model.hidden, "attention heads", model.heads,
            "choose a number of heads that divides it");
  divisible("heads", model.heads, t, tensor_parallel, next);
  divisible("vocabulary size", model.vocabulary, t, tensor_parallel, next);
  divisible("layers", model.layers, "stages x chunks of the pipeline",
            int64_t{pipeline_parallel} * chunks,
            "choose a pipeline-parallel size and chunks that divide it");
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
  if (sequence_parallel)
    divisible("sequence length", model.sequence, t, tensor_parallel,
              "choose a sequence length or tensor-parallel size that fits, or leave sequence "
              "parallelism off");
  all_fit(*this);
}

}  // namespace frugal
