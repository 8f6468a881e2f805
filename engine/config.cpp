#include "engine/config.h"

#include <fmt/format.h>

#include "kernels/support/error.h"

namespace frugal {
namespace {

void divisible(std::string_view what, int64_t value, std::string_view by, int64_t divisor,
               std::string_view next) {
  if (value % divisor != 0)
    throw InputError(
        fmt::format("{} ({}) must be divisible by {} ({}); {}", what, value, by, divisor, next));
}

void positive(std::string_view what, int64_t value) {
  if (value <= 0) throw InputError(fmt::format("{} is {}; it must be at least 1", what, value));
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
  }
  return "?";
}

ModelConfig ModelConfig::scaled(int64_t k) const {
  positive("scale divisor", k);
  const char* next = "choose a scale that divides hidden size, sequence length and vocabulary";
  divisible("hidden size", hidden, "the scale's divisor", k, next);
  divisible("sequence length", sequence, "the scale's divisor", k, next);
  divisible("vocabulary size", vocabulary, "the scale's divisor", k, next);
  ModelConfig model = *this;
  model.hidden /= k;
  model.sequence /= k;
  model.vocabulary /= k;
  divisible("hidden size", model.hidden, "attention heads", heads, next);
  return model;
}

void RunConfig::validate() const {
  positive("layers", model.layers);
  positive("hidden size", model.hidden);
  positive("attention heads", model.heads);
  positive("sequence length", model.sequence);
  positive("vocabulary size", model.vocabulary);
  positive("tensor-parallel size", tensor_parallel);
  positive("microbatch size", micro_batch);
  positive("microbatches", microbatches);
  if (!(model.dropout >= 0 && model.dropout < 1))
    throw InputError(
        fmt::format("dropout is {}; it must be at least 0 and below 1", model.dropout));
  if (type != DType::f32 && type != DType::bf16 && type != DType::f64)
    throw InputError(fmt::format("type is {}; it must be f32, bf16 or f64", name_of(type)));
  const char* next = "choose a tensor-parallel size that divides it";
  const char* t = "tensor-parallel size";
  divisible("hidden size", model.hidden, "attention heads", model.heads,
            "choose a number of heads that divides it");
  divisible("heads", model.heads, t, tensor_parallel, next);
  divisible("vocabulary size", model.vocabulary, t, tensor_parallel, next);
  if (sequence_parallel)
    divisible("sequence length", model.sequence, t, tensor_parallel,
              "choose a sequence length or tensor-parallel size that fits, or leave sequence "
              "parallelism off");
}

}  // namespace frugal
