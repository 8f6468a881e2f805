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

  /// Whether a unit's gradient is there, to which a sum is added as soon as there is one.
  using IsThere = std::function<bool(const ParameterUnit&)>;

  GradientReduction(Take take, IsThere is_there)
      : take_(std::move(take)), is_there_(std::move(is_there)) {}

  /// These parameters' gradients are complete: all of one unit or of several.
  void add(const RankAt& at, const ParameterList& complete);
  /// All that were added are summed and taken.
  void finish(const RankAt& at);

 private:
  struct InFlight {
    std::shared_ptr<ParameterUnit> unit;
    Tensor all, part;  // the part within all, of a program that does not keep it
    Pending sum;       // last, so that it ends before the memory goes
  };

  /// Puts gradients that a program has apart into those of their units.
  static void copy_in(const RankAt& at, const ParameterList& complete);
  void start(const RankAt& at, const std::shared_ptr<ParameterUnit>& unit);

  Take take_;
  IsThere is_there_;
  std::optional<InFlight> in_flight_;
};

}  // namespace frugal::engine
