#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/settings/field.h"
#include "harness/settings/layer_counts.h"

namespace frugal::harness {
namespace {

constexpr int64_t most_ranks = 1 << 16, most_elements = int64_t{1} << 40;

Field stage_layers() {
  return Field{.key = "stage_layers",
               .flag = "--stage-layers",
               .help =
                   "Layers of each stage, or of chunk 0 of each, of chunk 1 of each, and so on, "
                   "where they are not equal: 7+14*8+7 is 7, fourteen times 8, and 7",
               .of = FieldOf::run,
               .type = layer_counts_type(),
               .get =
                   [](const RunSettings& s) {
                     return nlohmann::json(text_of_layer_counts(s.config.stage_layers));
                   },
               .set =
                   [](RunSettings& s, const nlohmann::json& json, const std::string&) {
                     s.config.stage_layers = *parse_layer_counts(json.get<std::string>());
                   }}
      .when([](const RunSettings& s) { return !s.config.stage_layers.empty(); });
}

/// How the stages of a pipeline divide a batch between them.
std::vector<Field> pipeline() {
  using C = RunConfig;
  const ValueType size = whole_number(1, most_ranks);
  Field own = field({"schedule_file", "--schedule-file",
                     "A schedule of your own (docs/schedules.md), repeated until all steps are "
                     "done. It says what --schedule, --pipeline-parallel, --chunks and "
                     "--microbatches would, which are refused beside it; its first batch is 0, and "
                     "--steps a multiple of its batches"},
                    &RunSettings::schedule_file, any_text("FILE"))
                  .with_file(Field::File::always);
  own.group = FieldGroup::own_schedule;
  return {
      field({"pipeline_parallel_size", "--pipeline-parallel", "Stages of the pipeline"},
            &C::pipeline_parallel, size)
          .always(),
      choice({"schedule", "--schedule",
              "In which order stages compute microbatches, and with which weights"},
             &C::schedule)
          .always(),
      choice({"overlap_passes", "--overlap-passes",
              "Whether a forward and a backward pass that the schedule makes together hide each "
              "other's communication, as dualpipe-v does, or are made one after the other"},
             &C::overlap_passes),
      field({"chunks", "--chunks",
             "Parts of the model on each stage, with a schedule that has several"},
            &C::chunks, whole_number(1, most_ranks))
          .always(),
      stage_layers(),
      field({"microbatches", "--microbatches", "Microbatches per step, of each replica"},
            &C::microbatches, whole_number(1))
          .always()
          .needed(),
      own};
}

std::vector<Field> replicas_and_sequences() {
  using C = RunConfig;
  const ValueType size = whole_number(1, most_ranks);
  return {
      field({"data_parallel_size", "--data-parallel", "Replicas of the pipeline"},
            &C::data_parallel, size)
          .always(),
      choice({"shard", "--shard",
              "Of what replicas have a part each in place of a copy: the optimizer's state, "
              "gradients too, or weights too (ZeRO)"},
             &C::shard),
      field({"shard_size", "--shard-size",
             "Ranks next to each other that divide it, others having the same; all: those that "
             "have the same weights, of all replicas and parts of a sequence"},
            &C::shard_size, whole_number_or("all", most_ranks, "all that have the same weights"))
          .when([](const RunSettings& s) { return s.config.shard_size > 0; }),
      on_off({"overlap_grad_reduce", "--overlap-grad-reduce",
              "Replicas sum gradients while the last backward pass of a step computes others: a "
              "bucket's as soon as it is complete, or with --shard optimizer a layer's"},
             &C::overlap_grad_reduce),
      field({"bucket_size", "--bucket-size",
             "Elements of a bucket, at least; auto: 40 million, or a million for each replica, "
             "whichever is more"},
            &C::bucket_size, whole_number_or("auto", most_elements, "Megatron-LM's default"))
          .when([](const RunSettings& s) { return s.config.bucket_size > 0; }),
      field({"kept_microbatches", "--kept-microbatches",
             "Of a stage's microbatches in flight, so many that are kept and not recomputed"},
            &C::kept_microbatches, whole_number(0))
          .always(),
      on_off(
          {"keep_outputs", "--keep-outputs", "Keep what a stage has sent until its backward pass"},
          &C::keep_outputs)
          .always(),
      on_off({"sequence_parallel", "--sequence-parallel",
              "Sequence parallelism over the tensor-parallel group"},
             &C::sequence_parallel)
          .always()
          .needed(),
      field({"context_parallel_size", "--context-parallel",
             "Ranks that have a part of every sequence each; with --attention fused"},
            &C::context_parallel, size),
      choice({"context", "--context",
              "How such ranks compute attention: heads exchanged for parts of the sequence, or "
              "keys and values passed around a ring; zigzag: the same where each rank has an early "
              "and a late part, so that all compute as much"},
             &C::context)
          .when([](const RunSettings& s) { return s.config.context_parallel > 1; }),
      field({"ulysses_size", "--ulysses-size",
             "With --context ring or zigzag, so many of them next to each other exchange heads as "
             "with ulysses, and keys and values travel around a ring of these groups: two "
             "dimensions"},
            &C::ulysses_size, whole_number_or("none", most_ranks, "a ring of single ranks"))
          .when([](const RunSettings& s) { return s.config.ulysses_size > 0; })};
}

}  // namespace

std::vector<Field> layout_fields() {
  std::vector<Field> all = {
      field({"tensor_parallel_size", "--tensor-parallel", "Tensor-parallel size"},
            &RunConfig::tensor_parallel, whole_number(1, most_ranks))
          .always()
          .needed()};
  for (Field& field : pipeline()) all.push_back(std::move(field));
  for (Field& field : replicas_and_sequences()) all.push_back(std::move(field));
  for (Field& field : all)
    if (field.group != FieldGroup::own_schedule) field.group = FieldGroup::layout;
  return all;
}

}  // namespace frugal::harness
