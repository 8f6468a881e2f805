#pragma once
#include <array>
#include <functional>

#include "engine/rank.h"

namespace frugal::engine {

/// What an optimizer keeps of some weights between its steps: on the device, or where the run
/// offloads it, in the host's memory.
class OptimizerState {
 public:
  /// State of consecutive elements, on the device. Views are empty where there is none.
  struct Part {
    int64_t begin = 0, count = 0;
    View master, moment, second_moment;
  };

  OptimizerState() = default;
  /// So many moments, zero, of RunConfig::state_type(), and where there is to be one a copy of the
  /// weights [elements] in accumulation type. Throws InputError where none of this is and what is
  /// not there is to be in the host's memory.
  /// `pieces`: of the weights, where a program has one of each for every piece.
  OptimizerState(Rank& rank, const View& weights, int moments, bool master,
                 const Pieces& pieces = {});
  bool empty() const { return elements_ == 0; }

  /// Calls `update` with all elements, which it may change: at once where they are on the device;
  /// otherwise part by part, each of which comes to the device for it and goes back.
  void update(const RankAt& at, const std::function<void(const Part&)>& update) const;
  /// Calls `reader` likewise, which changes none of them (WeightUpdate::keeps_state).
  void read(const RankAt& at, const std::function<void(const Part&)>& reader) const;
  const Tensor& master() const { return kept_[0]; }
  const Tensor& moment() const { return kept_[1]; }
  const Tensor& second_moment() const { return kept_[2]; }

 private:
  /// `known`: whether there is something in it yet; `changes`: whether it goes back.
  void for_each_part(const RankAt& at, bool known, bool changes,
                     const std::function<void(const Part&)>& visit) const;

  int64_t elements_ = 0;
  std::array<Tensor, 3> kept_;  ///< master weights, moments
};

}  // namespace frugal::engine
