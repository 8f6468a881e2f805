#include "engine/comm/nccl/watch.h"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "engine/comm/communicator.h"
#include "kernels/support/error.h"

namespace frugal::engine {

void Watch::forget_ended() {
  while (!flights_.empty() && flights_.front().ended()) flights_.pop_front();
}

/// Tells the others, who would otherwise wait for a rank whose library is broken.
void Watch::throw_if_bad() {
  surroundings_.throw_if_failed();
  try {
    surroundings_.throw_if_broken();
  } catch (...) {
    surroundings_.fail(std::current_exception());
    throw;
  }
}

void Watch::pass_deadline(const Call& call, uint64_t number) {
  const std::exception_ptr late = std::make_exception_ptr(
      DeadlinePassed(fmt::format("rank {}: {} (number {}) did not end within {} s", rank_,
                                 text_of(call.name, call.data), number, deadline_)));
  surroundings_.fail(late);
  std::rethrow_exception(late);
}

/// Another group's may have been noted since.
void Watch::waits_for(const Call& call, uint64_t number) {
  if (!notes() || (noted_ == number + 1 && surroundings_.activity->state().waiting)) return;
  noted_ = number + 1;
  const int64_t bytes = call.data.empty() ? 0 : call.data.bytes();
  surroundings_.activity->waits_for(
      {std::string(call.name), std::string(surroundings_.group), number, bytes});
}

void Watch::goes_on() {
  if (noted_ == 0) return;
  noted_ = 0;
  surroundings_.activity->goes_on();
}

void Watch::started(const Call& call, std::function<bool()> ended, std::function<bool()> begun) {
  forget_ended();  // where a rank seldom waits, they would pile up
  flights_.push_back({count_++, call, std::move(ended), std::move(begun)});
}

void Watch::check() {
  throw_if_bad();
  forget_ended();
  if (flights_.empty()) return goes_on();
  const Flight& oldest = flights_.front();
  if (notes() && oldest.begun())
    waits_for(oldest.call, oldest.number);
  else
    goes_on();
  const double now = surroundings_.now();
  if (looked_for_ != oldest.number + 1) {
    looked_for_ = oldest.number + 1;
    since_ = now;
  }
  if (now - since_ > deadline_) pass_deadline(oldest.call, oldest.number);
}

void Watch::until(const Call& call, const std::function<bool()>& ready) {
  const double since = surroundings_.now();
  for (;;) {
    throw_if_bad();
    if (ready()) return goes_on();
    waits_for(call, count_);
    if (surroundings_.now() - since > deadline_) pass_deadline(call, count_);
    std::this_thread::yield();
  }
}

}  // namespace frugal::engine
