#pragma once
#include <memory>
#include <vector>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Weights of which each replica has a part (Shard::weights), for one pass: those of a unit are
/// gathered before it is computed with, while the unit before it is, and given back behind it.
class GatheredWeights final : public WeightSource {
 public:
  /// `parts`: the rank's, of all units.
  explicit GatheredWeights(Tensor parts) : parts_(std::move(parts)) {}
  ~GatheredWeights() override;
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  void begin(const RankAt& at, const ParameterList& now, const ParameterList& next) override;
  void end(const ParameterList& now) noexcept override;

 private:
  struct Arriving {
    std::shared_ptr<ParameterUnit> unit;
    Pending pending;
  };

  /// Starts to gather what is not there.
  void gather(const RankAt& at, const ParameterList& parameters);

  Tensor parts_;
  std::vector<Arriving> arriving_;
};

}  // namespace frugal::engine
