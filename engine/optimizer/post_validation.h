#pragma once
#include "engine/optimizer/norm_relay.h"
#include "engine/optimizer/optimizer.h"
#include "engine/optimizer/weight_versions.h"

namespace frugal::engine {

/// A stage's steps where stages do not meet (RunConfig::validates_later()). A step has two parts:
/// begin() writes the weights that it makes if nothing is to be clipped, and changes nothing else;
/// validate() makes the step, once the norm of the whole model's gradient is known. So there is
/// nothing to be undone, and a corrected step is the serial run's to the bit.
///
/// Weights that have a float32 copy to step from are written in place. Others need a second block
/// until then, and for that a rank has one more than where stages meet.
class LateStep {
 public:
  LateStep(Rank& rank, Optimizer& optimizer) : optimizer_(optimizer), relay_(rank), rank_(rank) {}

  /// The gradients are summed. `goes_on`: whether the stage has passes to make before it
  /// validates. Returns whether it can make them: whether weights have been written, as what it
  /// knows of the norm asks for no clipping.
  bool begin(const OptimizerOptions& options, const WeightBlocks& blocks, bool goes_on);
  struct Validated {
    double norm = 0;            ///< of the whole model's gradient, as Optimizer::step() has it
    bool stood = true;          ///< whether what stages have written so far is what they step to
    bool wrong_before = false;  ///< otherwise: whether the stage before this one went on with it
  };
  /// Waits until the norm is known. Throws as Optimizer::step() does.
  Validated validate();

 private:
  /// Whether gradients of this squared norm are taken as they are.
  bool stands(double squares) const;

  Optimizer& optimizer_;
  NormRelay relay_;
  Rank& rank_;
  OptimizerOptions options_;
  WeightBlocks blocks_;
  bool written_ = false;
};

}  // namespace frugal::engine
