#include "engine/schedule/peaks.h"

#include <algorithm>
#include <map>
#include <set>

namespace frugal::engine {

double peak_activations(const Actions& actions, double whole, double for_weights) {
  double held = 0, peak = 0;
  for (const Action& action : actions) {
    switch (action.kind) {
      case ActionKind::forward:
        held += whole;
        break;
      case ActionKind::backward:
        held -= whole;
        break;
      case ActionKind::input_backward:
        held -= whole - for_weights;
        break;
      case ActionKind::weight_backward:
        held -= for_weights;
        break;
      default:
        break;
    }
    peak = std::max(peak, held);
  }
  return peak;
}

int peak_in_flight(const Actions& actions) {
  return static_cast<int>(peak_activations(actions, 1, 0));
}

int peak_versions(const Actions& actions, int first_batch) {
  std::map<int, size_t> last_use;
  for (size_t i = 0; i < actions.size(); ++i)
    if (is_pass(actions[i].kind)) last_use[actions[i].version] = i;
  int newest = first_batch;
  std::set<int> older;  // versions that are kept beside the newest
  for (const auto& [version, last] : last_use)
    if (version < newest) older.insert(version);
  size_t peak = 1 + older.size();
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (is_pass(action.kind) && last_use[action.version] == i) older.erase(action.version);
    if (action.kind != ActionKind::step) continue;
    const auto use = last_use.find(newest);
    if (use != last_use.end() && use->second > i) older.insert(newest);
    newest = action.version;
    peak = std::max(peak, 1 + older.size());
  }
  return static_cast<int>(peak);
}

}  // namespace frugal::engine
