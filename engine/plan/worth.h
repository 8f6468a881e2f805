#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "engine/plan/plan_costs.h"
#include "engine/plan/request.h"

namespace frugal::engine {

/// Which parts of a layer's activations a search recomputes or offloads: of all sets of modules
/// those that are worth it, by what a layer takes and keeps.
class WorthTrying {
 public:
  WorthTrying(const PlanRequest& request, PlanCosts& costs) : request_(request), costs_(costs) {}

  /// Of what is asked for, without the sets that another one is never worse than.
  const std::vector<Recomputation>& recomputing(const RunConfig& like);
  /// Sets to offload, each of which leaves less of a layer on the device than those before.
  const std::vector<LayerModules>& offloading(const RunConfig& like);

 private:
  const PlanRequest& request_;
  PlanCosts& costs_;
  /// By t, c, b and whether backward passes are split; and by what is recomputed.
  using Key = std::tuple<int, int, ContextKind, int64_t, bool>;
  std::map<Key, std::vector<Recomputation>> recomputing_;
  std::map<std::tuple<Key, Recompute, std::string>, std::vector<LayerModules>> offloading_;
};

}  // namespace frugal::engine
