#include "engine/optimizer/post_validation.h"

#include <cmath>
#include <limits>

namespace frugal::engine {

double NormRelay::value_of(const Tensor& squares) const {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (rank_.device.backed()) rank_.device.copy_to_host(&value, squares);
  return value;
}

void NormRelay::begin(const Tensor& own) {
  Communicator& stages = rank_.groups.stages;
  const int stage = rank_.stage();
  const auto message = [&] { return rank_.allocate(DType::f64, {1}, Kind::communication); };
  for (Pending& sent : sent_) sent.wait();
  sent_.clear();
  before_ = 0;
  sum_ = message();
  if (stage > 0) {
    stages.receive(sum_, stage - 1).wait();
    before_ = value_of(sum_);
    rank_.run(Copy{own, sum_, true});
  } else {
    rank_.run(Copy{own, sum_});
  }
  so_far_ = value_of(sum_);
  if (!is_last()) {
    whole_ = message();
    sent_.push_back(stages.send(sum_, stage + 1));
    arriving_ = stages.receive(whole_, stages.size() - 1);
    return;
  }
  for (int to = stage - 1; to >= 0; --to) sent_.push_back(stages.send(sum_, to));
}

double NormRelay::all() {
  if (is_last()) return so_far_;
  arriving_.wait();
  return value_of(whole_);
}

bool PostValidation::stands(double squares) const {
  if (!rank_.device.backed()) return true;
  return std::isfinite(squares) && (options_.clip == 0 || std::sqrt(squares) <= options_.clip);
}

bool PostValidation::begin(const OptimizerOptions& options, const WeightBlocks& blocks,
                           bool goes_on) {
  options_ = options;
  blocks_ = blocks;
  relay_.begin(update_.squared_norm_of_stage());
  written_ = goes_on && stands(relay_.so_far());
  if (written_) update_.write_ahead(options_, blocks_);
  return written_;
}

PostValidation::Validated PostValidation::validate() {
  const double squares = relay_.all();
  const bool stood = stands(squares);
  update_.apply(options_, relay_.squares(), blocks_, !(written_ && stood));
  const double norm = update_.norm_of(squares);
  blocks_ = {};
  return {.norm = rank_.whole() ? norm : std::numeric_limits<double>::quiet_NaN(),
          .stood = stood,
          .wrong_before = !stood && rank_.stage() > 0 && stands(relay_.before())};
}

}  // namespace frugal::engine
