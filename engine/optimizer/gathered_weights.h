#pragma once
#include <memory>
#include <vector>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Weights of which each replica has a part (Shard::weights), for one pass: those of a unit are
/// gathered before it is computed with, while the unit before it is, and given back behind it,
/// unless a program has them stay.
class GatheredWeights final : public WeightSource {
 public:
  /// `parts`: the rank's, of all units. `keeps`: of a program, whose units may stay until a later
  /// pass, or where this is the last that needs them, until its end.
  explicit GatheredWeights(Tensor parts, const Keeping& keeps = {}, bool last = true)
      : parts_(std::move(parts)),
        outer_stay_(keeps.outer_weights_stay),
        layers_stay_(keeps.layer_weights_stay && !last),
        last_(last) {}
  ~GatheredWeights() override;
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  void begin(const RankAt& at, const ParameterList& now, const ParameterList& next) override;
  void end(const ParameterList& now) noexcept override;
  void end_all() noexcept override;

 private:
  struct Arriving {
    std::shared_ptr<ParameterUnit> unit;
    Pending pending;
  };

  /// Starts to gather what is not there.
  void gather(const RankAt& at, const ParameterList& parameters);

  /// Of a program whose layers stay: the last one's, a second time.
  void keep_buffer(const RankAt& at, const ParameterUnit& unit);
  bool stays(const ParameterUnit& unit) const {
    return unit.layer < 0 ? outer_stay_ : layers_stay_;
  }

  Tensor parts_;
  const bool outer_stay_, layers_stay_, last_;
  std::vector<Arriving> arriving_;
  std::vector<std::shared_ptr<ParameterUnit>> staying_;  // until this pass ends
  Tensor buffer_;
};

}  // namespace frugal::engine
