#include <fmt/format.h>

#include "engine/config.h"
#include "engine/options/fields.h"
#include "engine/options/rules.h"

/// Options of how ranks share each sequence.
namespace frugal::engine {
using namespace rules;  // NOLINT: this file says which hold
namespace {

/// Ranks among whom keys and values travel.
void check_ring(const RunConfig& c) {
  const ModelConfig& m = c.model;
  if (m.window > 0)
    throw InputError(fmt::format(
        "context is {}, and ring attention has no sliding windows, which the model has; choose "
        "context=ulysses",
        name_of(c.context)));
  if (c.context == ContextKind::ring) return;
  divisible("sequence length", m.sequence,
            c.head_ranks() > 1 ? "twice the ranks of a ring" : "twice the context-parallel size",
            int64_t{2} * c.ring_ranks(),
            "zigzag gives each rank two parts of it: choose sizes that fit, or context=ring");
  if (!m.causal)
    throw InputError(
        "context is zigzag and the model's attention is not causal, of which all ranks of a ring "
        "compute as much; choose context=ring");
}

/// Ranks among whom heads are divided.
void check_ulysses(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const int64_t heads = m.heads / c.tensor_parallel;
  const int ranks = c.head_ranks();
  const bool ring = c.ring_ranks() > 1;
  const std::string_view what = ring ? "Ulysses size" : "context-parallel size";
  divisible("heads / tensor-parallel size", heads, what, ranks,
            ring ? "these ranks divide heads: choose a Ulysses size that divides them"
                 : "Ulysses divides heads among the ranks: choose a size that divides them, or "
                   "context=ring, and ulysses_size for those that can");
  // A rank needs whole heads of keys and values, of which several may have the same.
  const int64_t groups = m.key_value_heads() / c.tensor_parallel;
  if (groups % ranks != 0 && ranks % groups != 0)
    throw InputError(fmt::format(
        "key/value heads / tensor-parallel size ({}) and {} ({}): one must be divisible by the "
        "other for Ulysses; choose another size{}",
        groups, what, ranks, ring ? "" : ", or context=ring"));
}

}  // namespace

void SequenceOptions::describe(Fields<SequenceOptions>& f) {
  using S = SequenceOptions;
  f.section(Section::layout);
  f.on_off("sequence_parallel", &S::sequence_parallel,
           "Sequence parallelism over the tensor-parallel group")
      .must_be_there()
      .draws({false, true});
  f.number("context_parallel_size", &S::context_parallel, {1, most_ranks},
           "Ranks that have a part of every sequence each; with attention=fused")
      .flagged("--context-parallel")
      .draws({1, 1, 1, 2, 4});
  f.choice("context", &S::context,
           "How such ranks compute attention: heads exchanged for parts of the sequence, or keys "
           "and values passed around a ring; zigzag: the same where each rank has an early and a "
           "late part, so that all compute as much")
      .written_where([](const S& s) { return s.context_parallel > 1; });
  f.number("ulysses_size", &S::ulysses_size, {0, most_ranks},
           "Ulysses ranks within each ring position (2-D context parallelism)")
      .zero("none", "a ring of single ranks")
      .needs([](const S& s) { return s.context != ContextKind::ulysses; }, "context=ring or zigzag")
      .draws({0, 2});
}

void SequenceOptions::check(const RunConfig& run) const {
  const ModelConfig& m = run.model;
  if (ulysses_size > 0)
    divisible("context-parallel size", context_parallel, "Ulysses size", ulysses_size,
              "choose sizes whose quotient is the ranks of a ring, or leave the Ulysses size out");
  if (context_parallel > 1) {
    divisible("sequence length", m.sequence, "context-parallel size", context_parallel,
              "choose a context-parallel size that divides it");
    if (run.attention != AttentionKind::fused)
      throw InputError(fmt::format(
          "context-parallel size is {} and attention is {}, which keeps scores of the whole "
          "sequence; choose attention=fused",
          context_parallel, name_of(run.attention)));
    if (m.dropout > 0)
      throw InputError(fmt::format(
          "dropout is {} and context-parallel size is {}; sequences are shared without dropout "
          "only: give a model with dropout 0",
          m.dropout, context_parallel));
    if (head_ranks() > 1) check_ulysses(run);
    if (ring_ranks() > 1) check_ring(run);
  }
  if (sequence_parallel)
    divisible("sequence length", run.group_sequence(), "tensor-parallel size", run.tensor_parallel,
              "choose a sequence length or tensor-parallel size that fits, or leave sequence "
              "parallelism off");
}

}  // namespace frugal::engine
