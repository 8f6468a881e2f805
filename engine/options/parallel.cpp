#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config.h"
#include "engine/options/fields.h"
#include "engine/options/layer_counts.h"
#include "engine/options/rules.h"
#include "engine/schedule/schedules.h"

/// Options of how ranks divide the model, the state and the batch.
namespace frugal::engine {
using namespace rules;  // NOLINT: this file says which hold
namespace {

constexpr int64_t most_elements = int64_t{1} << 40;  // of a bucket

/// Layers of each stage.
void check_stages(const RunConfig& c) {
  const int64_t parts = int64_t{c.pipeline_parallel} * c.chunks;
  if (c.stage_layers.empty()) {
    divisible("layers", c.model.layers, "stages x chunks of the pipeline", parts,
              "choose a pipeline-parallel size and chunks that divide it, or say how many each "
              "stage has (stage_layers)");
    return;
  }
  if (std::ssize(c.stage_layers) != parts)
    throw InputError(
        fmt::format("stage_layers has {} numbers for {} stages x chunks of the pipeline; give one "
                    "for each",
                    c.stage_layers.size(), parts));
  int64_t sum = 0;
  for (const int64_t layers : c.stage_layers) {
    if (layers < 0 || layers > most_layers)
      throw InputError(fmt::format(
          "stage_layers has {} layers for a stage; it must be from 0 to {}", layers, most_layers));
    sum += layers;
  }
  if (sum != c.model.layers)
    throw InputError(
        fmt::format("stage_layers add up to {} and the model has {} layers; give numbers that add "
                    "up to it",
                    sum, c.model.layers));
}

/// Sums of gradients beside a backward pass.
void check_grad_reduce(const RunConfig& c) {
  const auto refuse = [](std::string_view why) {
    throw InputError(fmt::format("overlap_grad_reduce is on and {}; leave it off", why));
  };
  if (c.overlap_grad_reduce == true) {
    if (c.data_parallel * c.context_parallel == 1)
      refuse("data-parallel size and context-parallel size are 1, so that nothing is summed");
    if (c.step_in_backward)
      refuse("step_in_backward is on, with which each weight steps behind a sum of its own");
    if (c.reduces_in_backward())
      refuse(
          fmt::format("shard is {}, which sums in every backward pass anyway", name_of(c.shard)));
  }
  if (c.bucket_size == 0) return;
  if (!c.overlaps_sums())
    throw InputError(
        fmt::format("bucket_size is {} and no gradients are summed beside a backward pass, for "
                    "which there would be buckets; leave bucket_size out",
                    c.bucket_size));
  if (c.shards(Shard::optimizer))
    throw InputError(fmt::format(
        "bucket_size is {} and shard is {}, with which a bucket is what replicas divide together: "
        "a layer, or a table; leave bucket_size out",
        c.bucket_size, name_of(c.shard)));
}

/// Updates within the backward pass: nothing else may need the gradients or the weights before.
void check_step_in_backward(const RunConfig& c) {
  if (!c.step_in_backward) return;
  if (c.microbatches > 1)
    throw InputError(
        fmt::format("step_in_backward is on and there are {} microbatches, whose gradients would "
                    "have to be kept until the last; use 1, or leave it off",
                    c.microbatches));
  if (c.pipeline_parallel > 1)
    throw InputError(
        fmt::format("step_in_backward is on and pipeline-parallel size is {}; use 1, or leave it "
                    "off",
                    c.pipeline_parallel));
  const auto possible = [](const ScheduleKind& kind) {
    return kind.flushes && !kind.splits_backward && !kind.has_chunks;
  };
  if (possible(c.schedule)) return;
  throw InputError(fmt::format(
      "step_in_backward is on and the schedule is {}, which {}; choose one of {}, or leave it off",
      name_of(c.schedule),
      c.schedule.flushes ? "computes gradients of weights after the backward pass"
                         : "keeps weights of before a step beside those of after it",
      fmt::join(ScheduleKind::names(possible), ", ")));
}

/// Steps before the norm of all gradients is known: whoever corrects one has the batch's gradients
/// and nothing but forward passes behind it.
void check_post_validation(const RunConfig& c) {
  if (c.validate_steps == StepValidation::before) return;
  const auto refuse = [](std::string_view what, std::string_view next) {
    throw InputError(
        fmt::format("validate_steps=after does not work where {}; {}, or use validate_steps=before",
                    what, next));
  };
  if (!c.schedule.flushes)
    refuse(fmt::format("the schedule is {}, which does not flush: backward passes of the next "
                       "batch follow a step at once",
                       name_of(c.schedule)),
           fmt::format("choose one of {}",
                       fmt::join(ScheduleKind::names(&ScheduleKind::flushes), ", ")));
  if (c.step_in_backward)
    refuse("step_in_backward is on, which has dropped the gradients by then",
           "leave step_in_backward off");
  if (c.exchanges_messages())
    refuse(fmt::format("the program is {}, whose stages wait for every message that they exchange",
                       name_of(c.program)),
           "choose another program");
}

}  // namespace

void ParallelOptions::describe(Fields<ParallelOptions>& f) {
  using P = ParallelOptions;
  const allowed::Number size{1, most_ranks};
  f.section(Section::layout);
  f.number("tensor_parallel_size", &P::tensor_parallel, size, "Tensor-parallel size")
      .flagged("--tensor-parallel")
      .must_be_there()
      .draws({1, 1, 2, 4});
  f.number("pipeline_parallel_size", &P::pipeline_parallel, size, "Stages of the pipeline")
      .flagged("--pipeline-parallel")
      .written()
      .draws({1, 1, 2, 4});
  f.own(
       "schedule", &P::schedule, allowed::OneOf{ScheduleKind::names()},
       [](const ScheduleKind& kind) { return std::string(kind.name); },
       [](const FieldValue& name) { return *schedule_kind(std::get<std::string>(name)); },
       "Order in which stages compute microbatches, and the weights that they use")
      .written();
  f.choice("overlap_passes", &P::overlap_passes,
           "A forward and a backward pass that the schedule makes together hide each other's "
           "communication, as dualpipe-v does, or are made one after the other")
      .draws({"on", "on", "off"});
  f.number("chunks", &P::chunks, {1, most_layers},
           "Parts of the model on each stage, with a schedule that has several")
      .written()
      .needs([](const P& p) { return p.pipeline_parallel > 1; },
             "a pipeline-parallel size of at least 2")
      .draws({1, 2});
  f.own(
      "stage_layers", &P::stage_layers,
      allowed::Text{.placeholder = "N+N...",
                    .words = "layers of each stage with + between them, such as 7+14*8+7",
                    .reads = [](const auto& text) { return parse_layer_counts(text).has_value(); }},
      text_of_layer_counts,
      [](const FieldValue& text) { return *parse_layer_counts(std::get<std::string>(text)); },
      "Layers of each stage, or of chunk 0 of each, of chunk 1 of each, and so on, where they "
      "are not equal: 7+14*8+7 is 7, fourteen times 8, and 7");
  f.number("data_parallel_size", &P::data_parallel, size, "Replicas of the pipeline")
      .flagged("--data-parallel")
      .written()
      .draws({1, 2, 3, 4});
}

void ParallelOptions::check(const RunConfig& run) const {
  const char* const next = "choose a tensor-parallel size that divides it";
  const char* const t = "tensor-parallel size";
  divisible("heads", run.model.heads, t, tensor_parallel, next);
  divisible("key/value heads", run.model.key_value_heads(), t, tensor_parallel, next);
  divisible("intermediate size", run.model.intermediate_size(), t, tensor_parallel, next);
  divisible("vocabulary size", run.model.vocabulary, t, tensor_parallel, next);
  check_stages(run);
  ScheduleShape{.stages = pipeline_parallel,
                .chunks = chunks,
                .microbatches = static_cast<int>(run.microbatches)}
      .validate(schedule);
}

void ShardOptions::describe(Fields<ShardOptions>& f) {
  using S = ShardOptions;
  f.section(Section::layout);
  f.choice("shard", &S::shard,
           "State that replicas divide in place of copies: nothing, the optimizer's state, also "
           "gradients, or also weights (ZeRO)");
  f.number("shard_size", &S::shard_size, {0, most_ranks},
           "Size of a sharding group (hybrid sharding); all: every rank with the same weights, of "
           "all replicas and parts of a sequence")
      .zero("all", "all that have the same weights")
      .needs([](const S& s) { return s.shard != Shard::none; },
             "shard=optimizer, gradients or weights")
      .draws({0, 2});
  f.on_off("overlap_grad_reduce", &S::overlap_grad_reduce,
           "Replicas sum gradients while the last backward pass of a step computes others: a "
           "bucket's as soon as it is complete, or with shard=optimizer a layer's. By default they "
           "do with a schedule that flushes, unless that takes memory or the program does not")
      .usually_follows();
  f.number("bucket_size", &S::bucket_size, {0, most_elements},
           "Elements of a bucket, at least, to the end of a layer; auto: as many as the program's, "
           "which are 10 million of frugal's own, or a million for each replica")
      .zero("auto", "the program's")
      .needs([](const S& s) { return s.overlap_grad_reduce != false; }, "overlap_grad_reduce")
      .draws({0, 1, 3000});
}

void ShardOptions::check(const RunConfig& run) const {
  if (shard_size > 0)
    divisible("data-parallel size x context-parallel size",
              int64_t{run.data_parallel} * run.context_parallel, "shard size", shard_size,
              "choose a size that divides them");
  check_grad_reduce(run);
  if (!run.reduces_in_backward() || !run.schedule.splits_backward) return;
  throw InputError(fmt::format(
      "shard is {} and the schedule is {}, which computes gradients of weights in passes of their "
      "own, until which those of a layer would be kept whole; choose shard=optimizer, or one of {}",
      name_of(shard), name_of(run.schedule),
      fmt::join(ScheduleKind::names([](const ScheduleKind& kind) { return !kind.splits_backward; }),
                ", ")));
}

void BatchOptions::describe(Fields<BatchOptions>& f) {
  using B = BatchOptions;
  f.section(Section::memory);
  f.on_off("step_in_backward", &B::step_in_backward,
           "Update a layer's weights when its backward pass ends, and drop their gradients; "
           "without clipping")
      .draws({false, false, false, false, false, true});
  f.choice("validate_steps", &B::validate_steps,
           "When the stages of a pipeline learn the norm by which they clip: all together before "
           "they step, or after it (post-validation): each steps by what it knows, begins the "
           "next batch, and steps anew where that was wrong");
  f.number("microbatches", &B::microbatches, {1, most_sequences},
           "Microbatches per step, of each replica")
      .in(Section::layout)
      .behind("stage_layers")
      .must_be_there()
      .draws({1, 2, 2, 4, 8});
  f.number("microbatch_size", &B::micro_batch, {1, most_sequences}, "Microbatch size, sequences")
      .flagged("--micro-batch")
      .in(Section::training)
      .behind("type")
      .must_be_there()
      .draws({1, 2});
  f.number("seed", &B::seed, {}, "Of weights, dropout and batches")
      .in(Section::training)
      .behind("weight_decay")
      .must_be_there()
      .draws({1, 7, int64_t{1} << 40});
}

void BatchOptions::check(const RunConfig& run) const {
  check_step_in_backward(run);
  check_post_validation(run);
}

}  // namespace frugal::engine
