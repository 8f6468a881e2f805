#include "engine/config.h"

#include <algorithm>
#include <limits>

#include "engine/options/fields.h"
#include "engine/options/rules.h"
#include "engine/program/find_program.h"

/// Options of numbers, and rules of a whole run.
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

}  // namespace

std::vector<std::string> weight_type_names() {
  std::vector<std::string> names;
  for (const DType type : weight_types) names.emplace_back(name_of(type));
  return names;
}

DType weight_type(std::string_view name) {
  return *std::ranges::find(weight_types, name, [](DType type) { return name_of(type); });
}

void NumericsOptions::describe(Fields<NumericsOptions>& f) {
  using N = NumericsOptions;
  f.section(Section::memory);
  f.on_off("narrow_reduction", &N::narrow_reduction,
           "Replicas sum their gradients in the type of the weights, rounded to it before: half "
           "the bytes with type=bf16");
  f.on_off("narrow_logits", &N::narrow_logits,
           "Keep logits in the type of the weights, and their gradient in their place: with "
           "type=bf16 a third of the bytes")
      .draws({false, false, false, true});
  f.on_off("overwrite_gradients", &N::overwrite_gradients,
           "Have a step's first product overwrite a weight's gradient, instead of clearing all "
           "gradients and adding to them");
  f.on_off("fuse_bias_gradients", &N::fuse_bias_gradients,
           "Have the product that makes a weight's gradient sum its bias's too, instead of "
           "reading the output's gradient once more");
  f.choice("precision", &N::precision,
           "Where type is bf16, gradients and optimizer state in float32, with a float32 copy of "
           "the weights, or all in bf16 without one")
      .draws({"mixed", "mixed", "pure"});
  f.own(
       "type", &N::type, allowed::OneOf{weight_type_names()},
       [](DType type) { return std::string(name_of(type)); },
       [](const FieldValue& name) { return weight_type(std::get<std::string>(name)); },
       "Of weights and activations; by default bf16 on GPUs, and f32 on the processor and on "
       "virtual machines measured in it")
      .in(Section::training)
      .behind("program")
      .must_be_there()
      .usually_follows()
      .draws({"f64", "f64", "f64", "f32", "f32", "f32", "bf16", "bf16"})
      .is_allowed = [](const N& n) {
    return std::ranges::find(weight_types, n.type) != weight_types.end();
  };
}

void RunConfig::describe(Fields<RunConfig>& f) {
  f.base<ParallelOptions>();
  f.base<ShardOptions>();
  f.base<SequenceOptions>();
  f.base<RecomputeOptions>();
  f.base<ActivationOptions>();
  f.base<BatchOptions>();
  f.base<OffloadOptions>();
  f.base<NumericsOptions>();
  f.section(Section::memory);
  f.own(
      "program", &RunConfig::program, allowed::Text{.placeholder = "NAME|FILE|BEHAVIOUR[+...]"},
      [](const Program& program) { return name_of(program); },
      [](const FieldValue& name) { return find_program(std::get<std::string>(name)); },
      "Inefficiencies of another program to imitate: what it keeps, copies and waits for "
      "without need, by the name of a program, a file, or behaviours (docs/programs.md)");
}

bool RunConfig::overlaps_sums() const {
  if (overlap_grad_reduce) return *overlap_grad_reduce;
  // What is rounded or flattened first is in memory until the sum has ended.
  const bool takes_memory = program.optimizer.flattened_gradients || sum_type() != gradient_type();
  return (data_parallel > 1 || shards(Shard::optimizer)) && schedule.flushes && !takes_memory &&
         !step_in_backward && !reduces_in_backward() && program.optimizer.buckets != Buckets::none;
}

int64_t RunConfig::bucket_elements(int stage, int chunk) const {
  if (bucket_size > 0) return bucket_size;
  const int64_t replicas = int64_t{data_parallel} * context_parallel;
  switch (program.optimizer.buckets) {
    case Buckets::first_chunk:
      return stage == 0 && chunk == 0 ? std::max<int64_t>(40'000'000, 1'000'000 * replicas)
                                      : std::numeric_limits<int64_t>::max();
    case Buckets::of_25_mib:
      return (int64_t{25} << 20) / static_cast<int64_t>(size_of(gradient_type()));
    default:
      if (sums_at_once(stage)) return std::numeric_limits<int64_t>::max();
      // What replicas divide is a sum of its own anyway. Latencies, which grow with replicas, cost
      // small models more than smaller buckets save; a layer of a large one is a bucket.
      return shards(Shard::optimizer) ? 1 : std::max<int64_t>(10'000'000, 1'000'000 * replicas);
  }
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
  check_fields(*this);
  ParallelOptions::check(*this);
  SequenceOptions::check(*this);
  RecomputeOptions::check(*this);
  ActivationOptions::check(*this);
  OffloadOptions::check(*this);
  BatchOptions::check(*this);
  ShardOptions::check(*this);
  check_behaviours(*this);
  all_fit(*this);
}

}  // namespace frugal::engine
