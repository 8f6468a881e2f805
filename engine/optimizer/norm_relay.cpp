#include "engine/optimizer/norm_relay.h"

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

}  // namespace frugal::engine
