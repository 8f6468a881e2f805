#include <fmt/format.h>

#include "engine/config.h"
#include "engine/options/fields.h"
#include "engine/options/rules.h"

/// Options of what layers keep from a forward to a backward pass, and where.
namespace frugal::engine {
using namespace rules;  // NOLINT: this file says which hold
namespace {

allowed::SomeOf some_of(LayerModules modules) {
  allowed::SomeOf some;
  for (const LayerModule module : LayerModules::all())
    if (modules.has(module)) some.names.emplace_back(name_of(module));
  return some;
}

LayerModules modules_in(const FieldValue& text) {
  return *layer_modules(std::get<std::string>(text));
}

LayerModules recomputed_in(const FieldValue& text) {
  return *layer_modules(std::get<std::string>(text), LayerModules::recomputable);
}

std::string text_of_modules(LayerModules modules) { return name_of(modules); }

}  // namespace

void RecomputeOptions::describe(Fields<RecomputeOptions>& f) {
  using R = RecomputeOptions;
  f.section(Section::memory);
  f.choice("recompute", &R::recompute, "Activations that are computed again")
      .must_be_there()
      .draws({"none", "none", "selective", "full", "stage"});
  f.own("recompute_modules", &R::recompute_modules, some_of(LayerModules::recomputable),
        text_of_modules, recomputed_in,
        "Modules of a layer whose outputs recompute=selective discards; given alone, they choose "
        "it. activation, up and mlp add nothing where the MLP has mini-sequences, and keys nothing "
        "to projection")
      .needs([](const R& r) { return r.recompute == Recompute::selective; }, "recompute=selective");
  f.number("recompute_group", &R::recompute_group, {1, most_layers},
           "Layers that recompute=full computes again together, from the first one's input")
      .needs([](const R& r) { return r.recompute == Recompute::full; }, "recompute=full")
      .draws({1, 1, 2, 3});
  f.number("recompute_layers", &R::recompute_layers, {0, most_layers},
           "Layers of each stage, or of each chunk, that are recomputed, from the first on; the "
           "others keep all")
      .zero("all", "every one")
      .needs(
          [](const R& r) {
            return r.recompute == Recompute::full || r.recompute == Recompute::selective;
          },
          "recompute=selective or full")
      .draws({0, 0, 1, 3});
  f.number("kept_microbatches", &R::kept_microbatches, {0, BatchOptions::most_sequences},
           "Microbatches of a stage's in flight that are kept and not recomputed")
      .in(Section::layout)
      .behind("bucket_size")
      .written()
      .needs([](const R& r) { return r.recompute != Recompute::none; },
             "recompute=selective, full or stage")
      .draws({0, 0, 0, 1});
}

void RecomputeOptions::check(const RunConfig& run) const {
  if (recompute == Recompute::selective && recompute_modules.empty())
    throw InputError(
        "recompute is selective and recompute_modules is empty; name some, or choose "
        "recompute=none");
  if (!recompute_modules.without(LayerModules::recomputable).empty())
    throw InputError(fmt::format("recompute_modules is {}; they must be among {}",
                                 name_of(recompute_modules), name_of(LayerModules::recomputable)));
  if (recompute_modules.has(LayerModule::up) && !is_gated(run.model.mlp))
    throw InputError(fmt::format(
        "recompute_modules is {}, and the model's MLP has no gate: up is the product beside a "
        "gate; leave up out",
        name_of(recompute_modules)));
  if (recompute_modules.has(LayerModule::keys) && run.head_ranks() > 1)
    throw InputError(
        "recompute_modules has keys, and ranks exchange heads (context), whose keys are not apart "
        "from queries and values; choose projection");
  if (recompute_modules.has(LayerModule::attention_output) && run.model.post_norms)
    throw InputError(
        "recompute_modules has attention-output, and the model has norms behind its blocks; leave "
        "attention-output out");
}

void ActivationOptions::describe(Fields<ActivationOptions>& f) {
  using A = ActivationOptions;
  f.section(Section::memory);
  f.choice("attention", &A::attention,
           "Fused attention keeps no scores. By default for models with rotary positions, and "
           "separate for others")
      .written()
      .usually_follows();
  f.on_off("stored_masks", &A::stored_masks,
           "Keep dropout masks, one byte per element, instead of regenerating them")
      .must_be_there();
  f.on_off("keep_outputs", &A::keep_outputs, "Keep what a stage has sent until its backward pass")
      .in(Section::layout)
      .behind("kept_microbatches")
      .written();
  f.number("mlp_chunks", &A::mlp_chunks, {0, most_tokens},
           "Mini-sequences of the MLP, whose intermediate tensors are computed again in its "
           "backward pass; paper: of as many tokens as the hidden size")
      .zero("paper", "as many as mst2024's rule says")
      .draws({0, 1, 1, 3});
  f.number("head_chunks", &A::head_chunks, {0, most_tokens},
           "Mini-sequences of the output head, so that not all logits exist together; paper: "
           "vocabulary size / hidden size of them")
      .zero("paper", "as many as mst2024's rule says")
      .draws({0, 1, 1, 3});
  f.number("head_tiles", &A::head_tiles, {1, most_tokens},
           "Parts of the vocabulary that the output head computes one after the other")
      .draws({1, 1, 3});
}

void ActivationOptions::check(const RunConfig& run) const {
  const bool only_fused = run.model.window > 0 || run.model.attention_softcap > 0;
  if (only_fused && attention == AttentionKind::separate)
    throw InputError(
        "attention is separate, which has neither sliding windows nor soft-caps of scores, and the "
        "model has; choose attention=fused");
  in_range("head_tiles", head_tiles, run.model.vocabulary / run.tensor_parallel);
}

void OffloadOptions::describe(Fields<OffloadOptions>& f) {
  using O = OffloadOptions;
  const auto offloads = [](const O& o) { return o.offload; };
  f.section(Section::memory);
  f.on_off("offload", &O::offload,
           "Keep activations of layers in the host's memory: by default the inputs that "
           "recompute=full keeps");
  f.own("offload_modules", &O::offload_modules, some_of(LayerModules::every()), text_of_modules,
        modules_in,
        "Modules of a layer whose activations go to the host's memory; given alone, they choose "
        "offload as well. What is computed again is not kept anywhere")
      .needs(offloads, "offload");
  f.number("offload_layers", &O::offload_layers, {0, most_layers},
           "Layers of each stage, or of each chunk, whose activations go to the host's memory, "
           "from the first on")
      .zero("all", "every one")
      .needs(offloads, "offload")
      .draws({0, 0, 1, 3});
  f.on_off("offload_optimizer", &O::offload_optimizer,
           "Keep the optimizer's state in the host's memory; parts of it come to the device for "
           "their update");
}

void OffloadOptions::check(const RunConfig& run) const {
  if (!offload) return;
  if (run.recompute == Recompute::stage)
    throw InputError(
        "offload is on and recompute is stage, which keeps nothing of layers; choose "
        "recompute=none, selective or full, or leave offload off");
  if (offload_modules.empty())
    throw InputError("offload is on and offload_modules is empty; name some, or leave offload off");
  const LayerModules kept = run.kept_modules();
  if ((offload_modules & kept).empty())
    throw InputError(fmt::format(
        "offload_modules is {} and recompute is {}, with which layers keep {}; name some of "
        "these{}",
        name_of(offload_modules), name_of(run.recompute), name_of(kept),
        offload_modules.has(LayerModule::input) ? ", or choose recompute=full" : ""));
}

LayerModules RunConfig::kept_modules() const {
  if (recompute == Recompute::stage) return {};
  const bool whole_layers = recompute_layers > 0 || kept_microbatches > 0;
  LayerModules kept(LayerModules::searched);
  kept.add(LayerModule::residual);
  if (mlp_mini_sequences() > 1 && !program.mlp.parts_stay)
    kept = kept.without({LayerModule::activation, LayerModule::mlp});
  if (recompute == Recompute::full) {
    if (!whole_layers) kept = {};
    kept.add(LayerModule::input);
  }
  if (recompute != Recompute::selective || whole_layers) return kept;
  LayerModules discarded = recompute_modules;
  if (discarded.has(LayerModule::mlp)) discarded.add(LayerModule::activation);
  // The papers' core keeps its output.
  if (attention == AttentionKind::separate)
    discarded = discarded.without({LayerModule::core_attention});
  return kept.without(discarded);
}

}  // namespace frugal::engine
