#include "engine/train/stage_executor.h"

// Steps of stages that do not meet, and what follows where one did not stand: no stage has made
// anything but forward passes since, which all of them make again.
namespace frugal::engine {

void StageExecutor::begin_step(const Action& action, size_t index) {
  const double begin = keep_timeline ? now() : 0;
  const int batch = action.version - 1 - run_->schedule.first_batch;
  const size_t early = early_forwards_.actions(rank_.stage(), batch);
  const OptimizerOptions& options = run_->optimizer.at(static_cast<size_t>(batch));
  const auto [from, to] = weights_.advance(rank_, !optimizer_.update().has_masters());
  optimizer_.sum_gradients(options);
  unvalidated_ = {action, index, index + 1 + early, early_forwards_.passes(rank_.stage(), batch)};
  if (post_validation_.begin(options, {from, to}, early > 0)) {
    result_.step_ends.push_back(now());
    note(action, begin);
    return;
  }
  unvalidated_->early = 0;
  validate_step();
  result_.step_ends.push_back(now());
  note(action, begin);
}

size_t StageExecutor::validate_before(size_t index) {
  if (!unvalidated_ || index != unvalidated_->end) return index;
  const Unvalidated here = *unvalidated_;
  const double begin = keep_timeline ? now() : 0;
  const bool stood = validate_step();
  note(here.step, begin);
  return stood ? index : here.index + 1;
}

bool StageExecutor::validate_step() {
  const Unvalidated here = *unvalidated_;
  unvalidated_.reset();
  const int batch = here.step.version - 1 - run_->schedule.first_batch;
  const PostValidation::Validated validated = post_validation_.validate();
  weights_.drop(here.step.version - 1);
  result_.gradient_norms.push_back(validated.norm);
  optimizer_.clear_gradients();
  if (validated.stood) return true;
  drop_flights();
  if (validated.wrong_before)
    receive_stale(early_forwards_.passes(rank_.stage() - 1, batch) - here.early);
  return false;
}

void StageExecutor::receive_stale(int messages) {
  for (int i = 0; i < messages; ++i) {
    const Tensor stale = hidden_state({});
    rank_.groups.activations.receive(stale, rank_.stage() - 1).wait();
  }
}

}  // namespace frugal::engine
