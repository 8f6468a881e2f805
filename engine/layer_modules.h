#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/namespace.h"

namespace frugal::engine {

/// Parts of what a transformer layer keeps from its forward to its backward pass. Any of them but
/// the last three can go to the host's memory meanwhile. Outputs of modules,
/// LayerModules::recomputable, a forward pass can also discard, so that the backward pass makes
/// them again just before it needs them. Each is made of what is kept or was itself made again: the
/// MLP of the norm's output, that of the layer's hidden state. docs/techniques.md says how many
/// bytes each has, and how many FLOPs make it again.
enum class LayerModule : uint8_t {
  input,            ///< what full recomputation keeps of a layer
  residual,         ///< inputs of the norms, and the masks of dropout before residuals are added
  norm,             ///< outputs of the norms before attention and before the MLP
  projection,       ///< queries, keys and values
  core_attention,   ///< what attention's core needs besides these (korthikanti2022, section 5), and
                    ///< what it gives; of separate attention that is not made again
  activation,       ///< what the MLP's nonlinearity gives
  mlp,              ///< all between the MLP's input and output
  up,               ///< of a gated MLP, the product that the nonlinearity's result is multiplied by
  keys,             ///< of `projection`, the keys
  attention_output  ///< of `residual`, the input of the MLP's norm: attention's projected context
                    ///< with the residual
};
constexpr Names names_of(LayerModule) {
  return {"input",      "residual", "norm", "projection", "core-attention",
          "activation", "mlp",      "up",   "keys",       "attention-output"};
}

/// A set of them.
class LayerModules {
 public:
  constexpr LayerModules() = default;
  constexpr LayerModules(std::initializer_list<LayerModule> modules) {
    for (const LayerModule module : modules) bits_ |= bit(module);
  }

  static const std::vector<LayerModule>& all();
  /// Modules whose outputs recomputation can discard.
  static const LayerModules recomputable;
  /// Modules whose sets a search tries. The last three are left out: they are parts of others, and
  /// have names for a set that another program discards.
  static const LayerModules searched;
  /// All modules that can go to the host's memory.
  static LayerModules every();
  /// Every set of some of these but the empty one, smaller ones before larger ones.
  static std::vector<LayerModules> all_sets(LayerModules of);

  constexpr bool has(LayerModule module) const { return (bits_ & bit(module)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  int size() const;
  constexpr void add(LayerModule module) { bits_ |= bit(module); }
  constexpr bool operator==(const LayerModules&) const = default;
  constexpr LayerModules operator&(LayerModules others) const {
    others.bits_ &= bits_;
    return others;
  }
  /// Modules of this set that are not among the others.
  constexpr LayerModules without(LayerModules others) const {
    others.bits_ = static_cast<uint16_t>(bits_ & ~others.bits_);
    return others;
  }

 private:
  static constexpr uint16_t bit(LayerModule module) {
    return static_cast<uint16_t>(1U << static_cast<unsigned>(module));
  }
  uint16_t bits_ = 0;
};

inline constexpr LayerModules LayerModules::searched = {LayerModule::norm, LayerModule::projection,
                                                        LayerModule::core_attention,
                                                        LayerModule::activation, LayerModule::mlp};
inline constexpr LayerModules LayerModules::recomputable = {LayerModule::norm,
                                                            LayerModule::projection,
                                                            LayerModule::core_attention,
                                                            LayerModule::activation,
                                                            LayerModule::mlp,
                                                            LayerModule::up,
                                                            LayerModule::keys,
                                                            LayerModule::attention_output};

/// "norm+core-attention": the names, in the order of all(), with + between them.
std::string name_of(LayerModules modules);
/// Modules that such a text names, in any order. None where a name is none of `among` or stands
/// twice, or where there is none.
std::optional<LayerModules> layer_modules(std::string_view text,
                                          LayerModules among = LayerModules::every());

}  // namespace frugal::engine
