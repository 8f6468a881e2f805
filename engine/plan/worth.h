#pragma once
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "engine/plan/plan_costs.h"
#include "engine/plan/request.h"

namespace frugal::engine {

/// A way to recompute, and what one layer costs with it where replicas divide nothing.
struct RecomputedLayer {
  Recomputation again;
  PartCost layer = {};  ///< nothing where there was no choice
};

/// Which parts of a layer's activations a search recomputes or offloads: of all sets of modules
/// those that are worth it, by what a layer takes and keeps. Several threads may ask.
class WorthTrying {
 public:
  WorthTrying(const PlanRequest& request, PlanCosts& costs) : request_(request), costs_(costs) {}

  /// Sets that are asked for, without those that another one is never worse than.
  const std::vector<RecomputedLayer>& recomputing(const RunConfig& like);
  /// Sets to offload, each of which leaves less of a layer on the device than those before.
  const std::vector<LayerModules>& offloading(const RunConfig& like);

 private:
  template <class T>
  struct Found {
    std::once_flag once;
    std::vector<T> all;
  };
  /// Results for a key; the first thread that asks makes them.
  template <class Key, class T, class Make>
  const std::vector<T>& found(std::map<Key, Found<T>>& of, const Key& key, const Make& make) {
    Found<T>* entry = nullptr;
    {
      const std::scoped_lock lock(finding_);
      entry = &of[key];
    }
    std::call_once(entry->once, [&] { entry->all = make(); });
    return entry->all;
  }
  std::vector<RecomputedLayer> find_recomputing(const RunConfig& like) const;
  std::vector<LayerModules> find_offloading(const RunConfig& like) const;

  const PlanRequest& request_;
  PlanCosts& costs_;
  std::mutex finding_;  ///< guards the maps, not what is in them
  /// Keys: t, c, b and whether there is a flush, or backward passes are split; for offloading also
  /// what is recomputed.
  using Key = std::tuple<int, int, ContextKind, int64_t, bool>;
  using OffloadingKey = std::tuple<Key, Recompute, std::string>;
  std::map<Key, Found<RecomputedLayer>> recomputing_;
  std::map<OffloadingKey, Found<LayerModules>> offloading_;
};

}  // namespace frugal::engine
