#include "harness/settings/field.h"

namespace frugal::harness {
namespace {

std::vector<Field> batch_and_optimizer() {
  using C = RunConfig;
  using O = OptimizerOptions;
  return {
      choice(
          {"type", "--type",
           "Of weights and activations; by default bf16 on GPUs, and f32 on the processor and on "
           "virtual machines measured in it"},
          &C::type)
          .always()
          .needed()
          .if_said(),
      field({"microbatch_size", "--micro-batch", "Microbatch size, sequences"}, &C::micro_batch,
            whole_number(1))
          .always()
          .needed(),
      choice({"optimizer", "--optimizer",
              "Weight decay is decoupled from the gradient but for "
              "adam"},
             &O::kind),
      field({"learning_rate", "--learning-rate",
             "After warm-up and before its cosine decay to a tenth"},
            &O::learning_rate, real_number(0, 1e9)),
      field({"momentum", "--momentum",
             "Part of the moment that a step keeps, with --optimizer momentum"},
            &O::momentum, real_number(0, 1)),
      field({"weight_prediction", "--weight-prediction",
             "With --schedule 2bw, whose gradients come one step late: compute them with weights "
             "that are so many further updates ahead; 1 makes up for the delay"},
            &O::prediction, real_number(0, 16)),
      field({"weight_decay", "--weight-decay", "Of all parameters"}, &O::weight_decay,
            real_number(0, 1e9)),
      field({"seed", "--seed", "Of weights, dropout and batches"}, &C::seed, whole_number(0))
          .always()
          .needed()};
}

std::vector<Field> steps() {
  return {field({"steps", "--steps",
                 "Training steps; otherwise 1, or the batches of "
                 "--schedule-file"},
                &TrainConfig::steps, whole_number(1))
              .if_said(),
          field({"warm_up", "--warm-up",
                 "Steps in which the learning rate rises; a twentieth of all otherwise"},
                &TrainConfig::warm_up, whole_number(0))
              .if_said(),
          field({"text", "--text", "Train on its bytes, the last tenth held out"},
                &RunSettings::text, any_text("FILE"))
              .with_file(Field::File::always)};
}

std::vector<Field> evaluation() {
  return {field({"eval_every", "--eval-every", "Steps between held-out losses; always at the end"},
                &RunSettings::eval_every, whole_number(1))
              .if_said(),
          field({"last_words", "--last-words",
                 "Passages of the held-out text whose last word is asked for at the end"},
                &RunSettings::last_words, whole_number(0)),
          field({"load_weights", "--load-weights",
                 "Begin with these weights and not with random ones: a safetensors file, an index "
                 "of several (model.safetensors.index.json), or a folder with either "
                 "(docs/models.md)"},
                &RunSettings::load_weights, any_text("FILE|FOLDER"))
              .with_file(Field::File::always),
          field({"checkpoint", "--checkpoint",
                 "Write all that the training needs to go on to this folder, after the last step "
                 "and every --every steps; the last two are kept (docs/cluster.md)"},
                &RunSettings::checkpoint, any_text("FOLDER"))
              .with_file(Field::File::always),
          field({"checkpoint_every", "--every", "Steps between checkpoints"},
                &RunSettings::checkpoint_every, whole_number(1))
              .if_said(),
          field({"resume", "--resume",
                 "Go on from the last checkpoint in this folder, or from the one that it is, with "
                 "as many ranks or others"},
                &RunSettings::resume, any_text("FOLDER"))
              .with_file(Field::File::always)};
}

}  // namespace

std::vector<Field> training_fields() {
  std::vector<Field> all;
  const auto add = [&all](std::vector<Field> fields, FieldGroup group) {
    for (Field& field : fields) {
      field.group = group;
      all.push_back(std::move(field));
    }
  };
  add(batch_and_optimizer(), FieldGroup::training);
  add(steps(), FieldGroup::steps);
  add(evaluation(), FieldGroup::evaluation);
  return all;
}

}  // namespace frugal::harness
