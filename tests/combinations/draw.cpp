#include "tests/combinations/draw.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/program/behaviour.h"
#include "tests/engine/support.h"

namespace frugal::testing {

const ScheduleKind& Draw::schedule() {
  return ScheduleKind::all()[random_() % ScheduleKind::all().size()];
}

LayerModules Draw::modules(LayerModules of) {
  const std::vector<LayerModules> sets = LayerModules::all_sets(of);
  return sets[random_() % sets.size()];
}

RunConfig Draw::combination() {
  RunConfig c = model();
  layout(c);
  memory(c);
  numbers(c);
  program(c);
  c.fuse_bias_gradients = once_in(3);
  return c;
}

RunConfig Draw::model() {
  RunConfig c = one_of({small_gpt, small_bert, small_llama, small_gemma})();
  c.model.layers = one_of<int64_t>({2, 4, 8});
  c.model.hidden = one_of<int64_t>({32, 64});
  if (c.model.head_width > 0) c.model.head_width = c.model.hidden / c.model.heads * 2;
  c.model.sequence = one_of<int64_t>({16, 24});
  if (c.model.positions == PositionKind::learned) c.model.tied = !once_in(4);
  c.micro_batch = one_of<int64_t>({1, 2});
  c.type = one_of({DType::f64, DType::f32});
  return c;
}

/// Which ranks have what.
void Draw::layout(RunConfig& c) {
  c.tensor_parallel = one_of({1, 1, 2, 4});
  c.sequence_parallel = once_in(2);
  c.pipeline_parallel = one_of({1, 1, 2, 4});
  c.data_parallel = one_of({1, 2, 3, 4});
  c.context_parallel = one_of({1, 1, 1, 2, 4});
  c.context = one_of({ContextKind::ulysses, ContextKind::ring, ContextKind::zigzag});
  if (c.context != ContextKind::ulysses) c.ulysses_size = one_of({0, 2});
  if (c.context_parallel > 1) c.model.dropout = 0;
  if (c.pipeline_parallel > 1) c.schedule = schedule();
  if (once_in(3)) c.overlap_passes = PassOverlap::off;
  if (c.schedule.has_chunks) c.chunks = c.schedule.chunks > 0 ? c.schedule.chunks : one_of({1, 2});
  if (c.pipeline_parallel > 1 && once_in(3)) {
    c.stage_layers.assign(static_cast<size_t>(c.pipeline_parallel * c.chunks), 1);
    c.stage_layers[one_of<size_t>({0, 1})] = 3;
    c.model.layers = c.pipeline_parallel * c.chunks + 2;
  }
  c.microbatches = one_of<int64_t>({1, 2, 2, 4, 8});
  c.shard = one_of({Shard::none, Shard::optimizer, Shard::gradients, Shard::weights});
  if (c.shard != Shard::none && once_in(2)) c.shard_size = 2;
  c.overlap_grad_reduce =
      c.data_parallel * c.context_parallel > 1 && c.shard < Shard::gradients && once_in(2);
  if (c.overlap_grad_reduce && c.shard == Shard::none)
    c.bucket_size = one_of<int64_t>({1, 3000, RunConfig::by_rule});
}

/// What is kept, where, and until when.
void Draw::memory(RunConfig& c) {
  c.attention = one_of({AttentionKind::fused, c.attention});
  c.recompute = one_of(
      {Recompute::none, Recompute::none, Recompute::selective, Recompute::full, Recompute::stage});
  if (c.recompute == Recompute::selective) c.recompute_modules = modules(LayerModules::searched);
  c.recompute_group = one_of<int64_t>({1, 1, 2, 3});
  c.recompute_layers = one_of<int64_t>({0, 0, 1, 3});
  c.stored_masks = once_in(3);
  c.keep_outputs = once_in(3);
  c.kept_microbatches = once_in(4) ? 1 : 0;
  c.mlp_chunks = one_of<int64_t>({1, 1, 3, RunConfig::by_rule});
  c.head_chunks = one_of<int64_t>({1, 1, 3, RunConfig::by_rule});
  c.head_tiles = one_of<int64_t>({1, 1, 3});
  c.step_in_backward = once_in(6);
  c.offload = once_in(3);
  if (c.offload) {
    c.offload_modules =
        one_of({RunConfig::inputs, LayerModules::every(), modules(LayerModules::every())});
    c.offload_layers = one_of<int64_t>({0, 0, 1, 3});
  }
  c.offload_optimizer = once_in(3);
  c.overwrite_gradients = once_in(3);
  if (once_in(2)) c.validate_steps = StepValidation::after;
}

/// What numbers are stored and summed as, and which are drawn.
void Draw::numbers(RunConfig& c) {
  if (once_in(4)) c.type = DType::bf16;
  c.precision = one_of({Precision::mixed, Precision::mixed, Precision::pure});
  c.narrow_reduction = once_in(3);
  c.narrow_logits = once_in(4);
  c.seed = one_of<uint64_t>({1, 7, 1ULL << 40});
}

/// What another program keeps and copies besides, of all that a device that computes can have.
void Draw::program(RunConfig& c) {
  if (!once_in(3)) return;
  std::vector<std::string_view> names;
  for (const Behaviour& behaviour : behaviours()) {
    if (!behaviour.real || !once_in(8)) continue;
    behaviour.put(c.program, true);
    names.push_back(behaviour.name);
  }
  c.program.name = fmt::format("{}", fmt::join(names, "+"));
}

std::string text_of(const RunConfig& c) {
  return fmt::format(
      "L {} h {} s {} b {} {} {} {} tied {}; t {}{} p {} ({}) v {} {} together {} w {} c {} {} u "
      "{} m {}; "
      "shard {} "
      "{} overlap {} {}; {} "
      "recompute {} {} {} {} masks {} outputs {} kept {} parts {} {} {} step-in-backward {} "
      "offload "
      "{} {} {} {} "
      "overwrite {} biases fused {} steps validated {} {} narrow {} {} seed {} program {}",
      c.model.layers, c.model.hidden, c.model.sequence, c.micro_batch, name_of(c.type),
      c.model.positions == PositionKind::learned ? (c.model.causal ? "gpt" : "bert")
                                                 : (c.model.post_norms ? "gemma" : "llama"),
      c.model.dropout, c.model.tied, c.tensor_parallel, c.sequence_parallel ? "s" : "",
      c.pipeline_parallel, fmt::join(c.stage_layers, " "), c.chunks, c.schedule.name,
      name_of(c.overlap_passes), c.data_parallel, c.context_parallel, name_of(c.context),
      c.ulysses_size, c.microbatches, name_of(c.shard), c.shard_size, c.overlap_grad_reduce,
      c.bucket_size, name_of(c.attention), name_of(c.recompute), name_of(c.recompute_modules),
      c.recompute_group, c.recompute_layers, c.stored_masks, c.keep_outputs, c.kept_microbatches,
      c.mlp_chunks, c.head_chunks, c.head_tiles, c.step_in_backward, c.offload,
      name_of(c.offload_modules), c.offload_layers, c.offload_optimizer, c.overwrite_gradients,
      c.fuse_bias_gradients, name_of(c.validate_steps), name_of(c.precision), c.narrow_reduction,
      c.narrow_logits, c.seed, name_of(c.program));
}

}  // namespace frugal::testing
