#pragma once
#include <vector>

#include "engine/rank.h"

namespace frugal::engine {

/// How the stages of a pipeline learn the squared norm of the whole model's gradient without
/// meeting: it is summed from the first stage to the last, so that each knows that of the stages
/// before it, and the last one tells all others (Qi et al. 2024, arXiv:2401.10241, section 4). A
/// message is one float64. Squared norms are NaN on a device without values.
class NormRelay {
 public:
  explicit NormRelay(Rank& rank) : rank_(rank) {}

  /// Of a batch: adds this stage's to what the stages before it have, for which it waits, and
  /// passes it on. `own`: [1], f64.
  void begin(const Tensor& own);
  /// Sum of the stages before this one; 0 for the first.
  double before() const { return before_; }
  double so_far() const { return so_far_; }
  /// Sum of all stages. Waits for the last one.
  double all();
  /// View of it on the device, behind all(). [1], f64.
  const Tensor& squares() const { return is_last() ? sum_ : whole_; }

 private:
  double value_of(const Tensor& squares) const;
  bool is_last() const { return rank_.stage() + 1 == rank_.groups.stages.size(); }

  Rank& rank_;
  double before_ = 0, so_far_ = 0;
  // Messages wait for their end before their memory goes.
  Tensor sum_, whole_;
  std::vector<Pending> sent_;
  Pending arriving_;
};

}  // namespace frugal::engine
