#include "engine/layer_modules.h"

#include <algorithm>
#include <bit>

namespace frugal::engine {

const std::vector<LayerModule>& LayerModules::all() {
  static const std::vector<LayerModule> modules = [] {
    std::vector<LayerModule> list;
    for (size_t i = 0; i < names_of(LayerModule()).size(); ++i)
      list.push_back(static_cast<LayerModule>(i));
    return list;
  }();
  return modules;
}

LayerModules LayerModules::every() {
  LayerModules modules = searched;
  modules.add(LayerModule::input);
  modules.add(LayerModule::residual);
  return modules;
}

int LayerModules::size() const { return std::popcount(bits_); }

std::vector<LayerModules> LayerModules::all_sets(LayerModules of) {
  std::vector<LayerModules> sets(1);
  for (const LayerModule module : all()) {
    if (!of.has(module)) continue;
    const std::vector<LayerModules> without = sets;
    for (LayerModules with : without) {
      with.add(module);
      sets.push_back(with);
    }
  }
  sets.erase(sets.begin());
  std::ranges::stable_sort(sets, {}, [](LayerModules set) { return set.size(); });
  return sets;
}

std::string name_of(LayerModules modules) {
  std::string text;
  for (const LayerModule module : LayerModules::all()) {
    if (!modules.has(module)) continue;
    if (!text.empty()) text += '+';
    text += name_of(module);
  }
  return text;
}

std::optional<LayerModules> layer_modules(std::string_view text, LayerModules among) {
  LayerModules modules;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const auto module = from_name<LayerModule>(text.substr(begin, end - begin));
    if (!module || !among.has(*module) || modules.has(*module)) return std::nullopt;
    modules.add(*module);
    begin = end + 1;
  }
  return modules;
}

}  // namespace frugal::engine
