#include "engine/config_rules.h"
#include "engine/program/find_program.h"
#include "harness/settings/field.h"

namespace frugal::harness {
namespace {

Field recompute_modules() {
  Field modules =
      field({"recompute_modules", "--recompute-modules",
             "Modules of a layer whose outputs --recompute selective discards; given alone, they "
             "choose it. activation, up and mlp add nothing where the MLP has mini-sequences"},
            &RunConfig::recompute_modules, layer_modules_type(LayerModules::recomputable));
  modules.set = [](RunSettings& settings, const nlohmann::json& json, const std::string&) {
    settings.config.recompute_modules =
        *layer_modules(json.get<std::string>(), LayerModules::recomputable);
  };
  return modules;
}

/// What is computed in parts, or again.
std::vector<Field> computed_otherwise() {
  using C = RunConfig;
  const ValueType parts =
      whole_number_or("paper", rules::most_tokens, "as many as mst2024's rule says");
  return {
      choice({"recompute", "--recompute", "Activations that are computed again"}, &C::recompute)
          .always()
          .needed(),
      recompute_modules(),
      field({"recompute_group", "--recompute-group",
             "Layers that --recompute full computes again together, from the first one's input"},
            &C::recompute_group, whole_number(1, rules::most_layers)),
      field({"recompute_layers", "--recompute-layers",
             "Of each stage's layers, or each chunk's, so many from the first on that are "
             "recomputed; the others keep all"},
            &C::recompute_layers, whole_number_or("all", rules::most_layers, "every one")),
      choice({"attention", "--attention",
              "Fused attention keeps no scores. By default for models with rotary positions, and "
              "separate for others"},
             &C::attention)
          .always()
          .if_said(),
      on_off({"stored_masks", "--stored-masks",
              "Keep dropout masks, one byte per element, instead of regenerating them"},
             &C::stored_masks)
          .always()
          .needed(),
      field({"mlp_chunks", "--mlp-chunks",
             "Mini-sequences of the MLP, whose intermediate tensors are computed again in its "
             "backward pass; paper: of as many tokens as the hidden size"},
            &C::mlp_chunks, parts),
      field({"head_chunks", "--head-chunks",
             "Mini-sequences of the output head, so that not all logits exist together; paper: "
             "vocabulary size / hidden size of them"},
            &C::head_chunks, parts),
      field({"head_tiles", "--head-tiles",
             "Parts of the vocabulary that the output head computes one after the other"},
            &C::head_tiles, whole_number(1))};
}

/// What is dropped early, kept elsewhere, or stored in fewer bytes.
std::vector<Field> kept_otherwise() {
  using C = RunConfig;
  return {on_off({"step_in_backward", "--step-in-backward",
                  "Update a layer's weights when its backward pass ends, and drop their gradients; "
                  "without clipping"},
                 &C::step_in_backward),
          field({"clip", "--clip",
                 "Greatest norm of the gradient of the whole model; 0: none, and stages without a "
                 "flush do not wait for each other. 1 otherwise, and 0 with --step-in-backward"},
                &OptimizerOptions::clip, real_number(0, 1e9))
              .if_said(),
          choice({"validate_steps", "--validate-steps",
                  "When the stages of a pipeline learn the norm by which they clip: all together "
                  "before they step, or after it (post-validation): each steps by what it knows, "
                  "begins the next batch, and steps anew where that was wrong"},
                 &C::validate_steps),
          on_off({"offload", "--offload",
                  "Keep activations of layers in the host's memory: by default the inputs that "
                  "--recompute full keeps"},
                 &C::offload),
          field({"offload_modules", "--offload-modules",
                 "What of a layer's activations goes to the host's memory; given alone, it chooses "
                 "--offload as well. What is computed again is not kept anywhere"},
                &C::offload_modules, layer_modules_type(LayerModules::every())),
          field({"offload_layers", "--offload-layers",
                 "Of each stage's layers, or each chunk's, so many from the first on whose "
                 "activations go to the host's memory"},
                &C::offload_layers, whole_number_or("all", rules::most_layers, "every one")),
          on_off({"offload_optimizer", "--offload-optimizer",
                  "Keep the optimizer's state in the host's memory; parts of it come to the device "
                  "for their update"},
                 &C::offload_optimizer),
          on_off({"narrow_reduction", "--narrow-reduction",
                  "Replicas sum their gradients in the type of the weights, rounded to it before: "
                  "half the bytes with --type bf16"},
                 &C::narrow_reduction),
          on_off({"narrow_logits", "--narrow-logits",
                  "Keep logits in the type of the weights, and their gradient in their place: with "
                  "--type bf16 a third of the bytes"},
                 &C::narrow_logits),
          on_off({"overwrite_gradients", "--overwrite-gradients",
                  "Have a step's first product overwrite a weight's gradient, instead of clearing "
                  "all gradients and adding to them"},
                 &C::overwrite_gradients),
          on_off({"fuse_bias_gradients", "--fuse-bias-gradients",
                  "Have the product that makes a weight's gradient sum its bias's too, instead of "
                  "reading the output's gradient once more"},
                 &C::fuse_bias_gradients),
          choice({"precision", "--precision",
                  "Where --type is bf16, gradients and optimizer state in float32, with a float32 "
                  "copy of the weights, or all in bf16 without one"},
                 &C::precision)};
}

/// What the run does as another program does.
Field program() {
  ValueType name = any_text("NAME|FILE|BEHAVIOUR[+...]");
  name.list = true;
  return {
      .key = "program",
      .flag = "--program",
      .help =
          "Whose behaviour the run has besides: what it keeps, copies and waits for without "
          "need, by the name of a program, a file, or behaviours (docs/programs.md)",
      .of = FieldOf::run,
      .type = std::move(name),
      .get = [](const RunSettings& s) { return nlohmann::json(name_of(s.config.program)); },
      .set = [](RunSettings& s, const nlohmann::json& json,
                const std::string&) { s.config.program = find_program(json.get<std::string>()); }};
}

}  // namespace

std::vector<Field> memory_fields() {
  std::vector<Field> all = computed_otherwise();
  for (Field& field : kept_otherwise()) all.push_back(std::move(field));
  all.push_back(program());
  for (Field& field : all) field.group = FieldGroup::memory;
  return all;
}

}  // namespace frugal::harness
