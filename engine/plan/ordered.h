#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "engine/plan/links.h"
#include "engine/plan/part_cost.h"
#include "engine/plan/request.h"

namespace frugal::engine {

/// Division of devices, and order of passes.
struct Ordered {
  RunConfig run;
  const Links* links;
  // Seconds of a batch in which nothing is recomputed, divided or waited for; 0: not known.
  double passes;
  double least;  ///< the same, if passes that are made together hide all that they can
};

/// All ways to divide the devices of a request and to order passes on them.
class OrderedRuns {
 public:
  /// Finds all ways. With `timed`, each has its seconds, and the one that computes least is first.
  OrderedRuns(const PlanRequest& request, PlanCosts& costs, bool timed);

  const std::vector<Ordered>& all() const { return all_; }
  /// Configurations whose microbatches are not a multiple of the depth.
  int64_t not_filling() const { return not_filling_; }

 private:
  bool divides(int64_t parts) const;
  bool fewer_share(const Sharing& context, int64_t micro_batch) const;
  void shape(int tensor, const Sharing& context, int64_t depth, int64_t width);
  void in_order(RunConfig run, const Links& links, const ScheduleKind& kind);
  void beside_or_alone(RunConfig run, const Links& links);
  Ordered timed(const RunConfig& run, const Links& links);

  const PlanRequest& request_;
  PlanCosts& costs_;
  const bool timed_;
  std::deque<Links> links_;
  std::vector<Ordered> all_;
  int64_t not_filling_ = 0;
};

/// Rule that forbids a run whose stages may still have any sizes; none where it is allowed.
std::optional<InputError> rule_against(RunConfig run);
/// Seconds in which a stage computes so much at least, of microbatches of which a model computes so
/// much: passes that are made together hide the shorter ones.
double least_of_batch(const RunConfig& run, const PartCost& model);

/// Layers of each part of the model (RunConfig::stage_layers), divided so that the stage that
/// computes longest for a microbatch does so as short as it can: the embedding's and the head's
/// time count. Stages that are equal after all: of the later ones, which have fewer microbatches in
/// flight, one has more. Needs as many layers as parts.
std::vector<int64_t> balanced_layers(const RunConfig& run, const PartCosts& costs);

}  // namespace frugal::engine
