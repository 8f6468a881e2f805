#include "engine/optimizer/post_validation.h"

#include <cmath>
#include <limits>

namespace frugal::engine {

bool LateStep::stands(double squares) const {
  if (!rank_.device.backed()) return true;
  return std::isfinite(squares) && (options_.clip == 0 || std::sqrt(squares) <= options_.clip);
}

bool LateStep::begin(const OptimizerOptions& options, const WeightBlocks& blocks, bool goes_on) {
  options_ = options;
  blocks_ = blocks;
  relay_.begin(optimizer_.squared_norm_of_stage(rank_));
  written_ = goes_on && stands(relay_.so_far());
  if (written_) optimizer_.write_ahead(rank_, options_, blocks_);
  return written_;
}

LateStep::Validated LateStep::validate() {
  const double squares = relay_.all();
  const bool stood = stands(squares);
  optimizer_.update(rank_, options_, relay_.squares(), blocks_, !(written_ && stood));
  const double norm = optimizer_.norm_of(rank_, squares);
  blocks_ = {};
  return {.norm = rank_.whole() ? norm : std::numeric_limits<double>::quiet_NaN(),
          .stood = stood,
          .wrong_before = !stood && rank_.stage() > 0 && stands(relay_.before())};
}

}  // namespace frugal::engine
