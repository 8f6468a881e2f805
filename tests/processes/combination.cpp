#include "tests/processes/combination.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <vector>

#include "engine/train/trainer.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::testing {
namespace {

using Random = std::mt19937_64;

bool coin(Random& random) { return random() % 2 == 0; }

template <class T>
const T& one_of(const std::vector<T>& values, Random& random) {
  return values[random() % values.size()];
}

/// [t, c, p, w]
using Sizes = std::array<int, 4>;

/// Every way to write the number of ranks as their product, in an order that the seed decides.
std::vector<Sizes> divisions(int ranks, uint64_t seed) {
  std::vector<Sizes> all;
  for (int t = 1; t <= ranks; ++t)
    for (int c = 1; t * c <= ranks; ++c)
      for (int p = 1; t * c * p <= ranks; ++p)
        if (ranks % (t * c * p) == 0) all.push_back({t, c, p, ranks / (t * c * p)});
  std::shuffle(all.begin(), all.end(), Random(seed));
  return all;
}

ModelConfig model_of(int number, Random& random) {
  switch (number % 4) {
    case 0:
      return small_llama().model;
    case 1:
      return small_bert().model;
    default:
      break;
  }
  ModelConfig model = small_gpt().model;
  model.dropout = coin(random) ? 0.1 : 0;
  return model;
}

/// What may be wrong together: whoever asks tries again.
Combination any(const Sizes& sizes, int number, Random& random) {
  Combination drawn;
  RunConfig& c = drawn.config;
  c.model = model_of(number, random);
  c.tensor_parallel = sizes[0];
  c.context_parallel = sizes[1];
  c.pipeline_parallel = sizes[2];
  c.data_parallel = sizes[3];
  c.sequence_parallel = sizes[0] > 1 && coin(random);
  c.context =
      one_of<ContextKind>({ContextKind::ulysses, ContextKind::ring, ContextKind::zigzag}, random);
  if (c.context != ContextKind::ulysses && c.context_parallel % 2 == 0 && coin(random))
    c.ulysses_size = 2;
  c.attention = sizes[1] > 1 || coin(random) ? AttentionKind::fused : AttentionKind::separate;
  if (c.attention == AttentionKind::fused) c.model.dropout = 0;
  if (sizes[2] > 1) {
    const std::vector<std::string> names = ScheduleKind::names();
    c.schedule = *schedule_kind(names[static_cast<size_t>(number) % names.size()]);
    if (c.schedule.has_chunks) c.chunks = 2;
  }
  c.model.layers = std::max(2, c.pipeline_parallel * c.chunks);
  c.microbatches = sizes[2] * (1 + static_cast<int64_t>(random() % 2));
  c.type = std::vector{DType::f32, DType::bf16, DType::f32, DType::bf16, DType::f64}.at(
      static_cast<size_t>(number) % 5);
  if (c.type == DType::bf16 && coin(random)) c.precision = Precision::pure;
  c.recompute = one_of<Recompute>(
      {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}, random);
  c.mlp_chunks = coin(random) ? 2 : 1;
  c.head_chunks = coin(random) ? 2 : 1;
  c.micro_batch = 1 + static_cast<int64_t>(random() % 2);
  c.seed = random() % 1000;
  drawn.train.optimizer.kind = static_cast<OptimizerKind>(number % 4);
  drawn.train.optimizer.learning_rate = 3e-3;
  drawn.train.optimizer.clip = coin(random) ? 1 : 0;
  drawn.train.steps = 3;
  c.overlap_grad_reduce = c.data_parallel * c.context_parallel > 1 && coin(random);
  if (c.overlap_grad_reduce && coin(random))
    c.shard = Shard::optimizer;
  else if (c.overlap_grad_reduce)
    c.bucket_size = one_of<int64_t>({1, 3000, RunConfig::by_rule}, random);
  return drawn;
}

bool is_right(const RunConfig& config) {
  try {
    config.validate();
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

std::string Combination::text() const {
  const RunConfig& c = config;
  return fmt::format(
      "t {} c {} ({} {}) p {} ({}, {} chunks) w {}, {}{}, {}, m {} b {}, recompute {}, attention "
      "{}, "
      "mini-sequences {} and {}, {}{}, clip {}, overlap {} {} {}",
      c.tensor_parallel, c.context_parallel, name_of(c.context), c.ulysses_size,
      c.pipeline_parallel, name_of(c.schedule), c.chunks, c.data_parallel, name_of(c.type),
      c.precision == Precision::pure ? " pure" : "",
      c.model.objective == Objective::masked_token ? "bert"
      : c.model.norm == NormKind::rms              ? "llama"
                                                   : "gpt",
      c.microbatches, c.micro_batch, name_of(c.recompute), name_of(c.attention), c.mlp_chunks,
      c.head_chunks, name_of(train.optimizer.kind), c.sequence_parallel ? ", SP" : "",
      train.optimizer.clip, c.overlap_grad_reduce, c.bucket_size, name_of(c.shard));
}

Combination draw(int ranks, int number, uint64_t seed) {
  const std::vector<Sizes> all = divisions(ranks, seed);
  Random random(seed * 1000 + static_cast<uint64_t>(number));
  for (size_t i = 0; i < all.size(); ++i)  // a division that nothing goes with is left out
    for (int attempt = 0; attempt < 100; ++attempt) {
      const Combination drawn =
          any(all[(static_cast<size_t>(number) + i) % all.size()], number, random);
      if (is_right(drawn.config)) return drawn;
    }
  throw std::logic_error("nothing could be drawn");
}

}  // namespace frugal::testing
