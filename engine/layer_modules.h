#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/namespace.h"

namespace frugal::engine {

/// Parts of a transformer layer whose outputs a forward pass can discard, so that the backward pass
/// makes them again just before it needs them. Each is made of what is kept or was itself made
/// again: the MLP of the norm's output, that of the layer's hidden state. docs/techniques.md says
/// how many bytes each discards, and for how many FLOPs.
enum class LayerModule : uint8_t {
  norm,            ///< outputs of the norms before attention and before the MLP
  projection,      ///< queries, keys and values
  core_attention,  ///< what attention's core needs besides these (korthikanti2022, section 5)
  activation,      ///< what the MLP's nonlinearity gives
  mlp              ///< all between the MLP's input and output
};
std::string_view name_of(LayerModule module);

/// A set of them.
class LayerModules {
 public:
  constexpr LayerModules() = default;
  constexpr LayerModules(std::initializer_list<LayerModule> modules) {
    for (const LayerModule module : modules) bits_ |= bit(module);
  }

  static const std::vector<LayerModule>& all();
  /// Every set but the empty one, smaller ones before larger ones.
  static std::vector<LayerModules> all_sets();

  constexpr bool has(LayerModule module) const { return (bits_ & bit(module)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  int size() const;
  constexpr void add(LayerModule module) { bits_ |= bit(module); }
  constexpr bool operator==(const LayerModules&) const = default;

 private:
  static constexpr uint8_t bit(LayerModule module) {
    return static_cast<uint8_t>(1U << static_cast<unsigned>(module));
  }
  uint8_t bits_ = 0;
};

/// "norm+core-attention": the names, in the order of all(), with + between them.
std::string name_of(LayerModules modules);
/// What such a text names, in any order. None where a name is none's or stands twice, or where
/// there is none.
std::optional<LayerModules> layer_modules(std::string_view text);

}  // namespace frugal::engine
