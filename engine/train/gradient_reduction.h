#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Sums gradients over replicas of which each keeps a part (RunConfig::reduces_in_backward), in the
/// backward pass that computes them: those of one unit while the next one's are computed.
class GradientReduction {
 public:
  /// Is given the rank's part of a unit's sums, in the type that they were summed in.
  using Take = std::function<void(const RankAt&, const ParameterUnit&, const Tensor& part)>;

  explicit GradientReduction(Take take) : take_(std::move(take)) {}

  /// These parameters' gradients are complete: all of one unit or of several.
  void add(const RankAt& at, const ParameterList& complete);
  /// All that were added are summed and taken.
  void finish(const RankAt& at);

 private:
  struct InFlight {
    std::shared_ptr<ParameterUnit> unit;
    Tensor all, part;
    Pending sum;  // last, so that it ends before the memory goes
  };

  void start(const RankAt& at, const std::shared_ptr<ParameterUnit>& unit);

  Take take_;
  std::optional<InFlight> in_flight_;
};

}  // namespace frugal::engine
