#pragma once
#include "engine/optimizer/update.h"

namespace frugal::engine {

/// Relays the squared norm of the whole model's gradient through a pipeline whose stages do not
/// meet: it is summed from the first stage to the last, so that each knows that of the stages
/// before it, and the last one tells all others (Qi et al. 2024, arXiv:2401.10241, section 4). A
/// message is one float64. Squared norms are NaN on a device without values.
class NormRelay {
 public:
  explicit NormRelay(Rank& rank) : rank_(rank) {}

  /// Waits for the sum of the stages before this one, adds `own`, [1] f64, and passes it on.
  void begin(const Tensor& own);
  /// Sum of the stages before this one; 0 for the first.
  double before() const { return before_; }
  double so_far() const { return so_far_; }
  /// Sum of all stages. Waits for the last one.
  double all();
  /// View of all() on the device, after it. [1], f64.
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

/// Steps of a stage that does not meet the others (RunConfig::validates_later()), in two parts:
/// begin() writes the weights that it makes if nothing is to be clipped, and changes nothing else;
/// validate() makes the step, once the norm of the whole model's gradient is known. So nothing has
/// to be undone, and a corrected step equals the serial run's to the bit.
///
/// Weights that have a float32 copy to step from are written in place. Others need a second block
/// until then, one more than where stages meet.
class PostValidation {
 public:
  PostValidation(Rank& rank, Update& update) : update_(update), relay_(rank), rank_(rank) {}

  /// Begins a step whose gradients are summed. `goes_on`: the stage has passes to make before it
  /// validates. Returns true if it can make them: weights are written, as the norm so far asks for
  /// no clipping.
  bool begin(const OptimizerOptions& options, const WeightBlocks& blocks, bool goes_on);
  struct Validated {
    double norm = 0;            ///< of the whole model's gradient, as of Optimizer::step()
    bool stood = true;          ///< what stages have written is what they step to
    bool wrong_before = false;  ///< did not stand, and the stage before went on with it
  };
  /// Waits until the norm is known. Throws as Optimizer::step() does.
  Validated validate();

 private:
  /// True if gradients of this squared norm are taken as they are.
  bool stands(double squares) const;

  Update& update_;
  NormRelay relay_;
  Rank& rank_;
  OptimizerOptions options_;
  WeightBlocks blocks_;
  bool written_ = false;
};

}  // namespace frugal::engine
