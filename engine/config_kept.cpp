#include <fmt/format.h>

#include "engine/config.h"
#include "engine/config_rules.h"

/// Rules of what layers keep from a forward to a backward pass, and where.
namespace frugal::engine {

namespace rules {

void validate_recompute(const RunConfig& c) {
  const bool layers = c.recompute == Recompute::full || c.recompute == Recompute::selective;
  if (c.recompute == Recompute::selective && c.recompute_modules.empty())
    throw InputError(
        "recompute is selective and there are no recomputed modules; name some, or choose "
        "recompute none");
  if (c.recompute != Recompute::selective && c.recompute_modules != RunConfig::cores)
    throw InputError(fmt::format(
        "recomputed modules are {} and recompute is {}; modules of layers are recomputed under "
        "selective recomputation alone: choose recompute selective, or leave the modules out",
        name_of(c.recompute_modules), name_of(c.recompute)));
  if (!c.recompute_modules.without(LayerModules::recomputable).empty())
    throw InputError(fmt::format("recomputed modules are {}; they must be among {}",
                                 name_of(c.recompute_modules),
                                 name_of(LayerModules::recomputable)));
  if (c.recompute_modules.has(LayerModule::up) && !is_gated(c.model.mlp))
    throw InputError(fmt::format(
        "recomputed modules are {}, and the model's MLP has no gate: up is the product beside a "
        "gate; leave up out",
        name_of(c.recompute_modules)));
  in_range("layers of a recomputed group", c.recompute_group, most_layers);
  if (c.recompute_group > 1 && c.recompute != Recompute::full)
    throw InputError(fmt::format(
        "layers of a recomputed group is {} and recompute is {}; groups of layers keep one input "
        "under full recomputation alone: choose recompute full, or groups of 1",
        c.recompute_group, name_of(c.recompute)));
  if (c.recompute_layers < 0 || c.recompute_layers > most_layers)
    throw InputError(fmt::format("recomputed layers is {}; it must be from 1 to {}, or 0 for all",
                                 c.recompute_layers, most_layers));
  if (c.recompute_layers > 0 && !layers)
    throw InputError(
        fmt::format("recomputed layers is {} and recompute is {}; choose recompute selective or "
                    "full, or leave the layers out",
                    c.recompute_layers, name_of(c.recompute)));
}

void validate_offload(const RunConfig& c) {
  if (c.offload_layers < 0 || c.offload_layers > most_layers)
    throw InputError(fmt::format("offloaded layers is {}; it must be from 1 to {}, or 0 for all",
                                 c.offload_layers, most_layers));
  if (!c.offload) {
    if (c.offload_modules != RunConfig::inputs || c.offload_layers > 0)
      throw InputError(fmt::format(
          "offload is off and offloaded modules are {} of {} layers; choose offload, or leave them "
          "out",
          name_of(c.offload_modules),
          c.offload_layers == 0 ? "all" : std::to_string(c.offload_layers)));
    return;
  }
  if (c.recompute == Recompute::stage)
    throw InputError(
        "offload is on and recompute is stage, which keeps nothing of layers; choose recompute "
        "none, selective or full, or leave it off");
  if (c.offload_modules.empty())
    throw InputError(
        "offload is on and there are no offloaded modules; name some, or leave it off");
  const LayerModules kept = c.kept_modules();
  if ((c.offload_modules & kept).empty())
    throw InputError(fmt::format(
        "offloaded modules are {} and recompute is {}, with which layers keep {}; name some of "
        "these{}",
        name_of(c.offload_modules), name_of(c.recompute), name_of(kept),
        c.offload_modules.has(LayerModule::input) ? ", or choose recompute full" : ""));
}

}  // namespace rules

LayerModules RunConfig::kept_modules() const {
  if (recompute == Recompute::stage) return {};
  const bool whole_layers = recompute_layers > 0 || kept_microbatches > 0;
  LayerModules kept(LayerModules::searched);
  kept.add(LayerModule::residual);
  if (mlp_mini_sequences() > 1 && !program.keeps.parts_until_layer_ends)
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
