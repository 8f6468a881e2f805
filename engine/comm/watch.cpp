#include "engine/comm/watch.h"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "kernels/support/error.h"

namespace frugal::engine {

void Watch::forget_ended() {
  while (!flights_.empty() && flights_.front().ended()) flights_.pop_front();
}

/// What breaks the library for this rank leaves the others waiting for it.
void Watch::throw_if_bad() {
  surroundings_.throw_if_failed();
  try {
    surroundings_.throw_if_broken();
  } catch (const std::exception& e) {
    surroundings_.fail(e.what());
    throw;
  }
}

void Watch::pass_deadline(const Call& call, uint64_t number) {
  const std::string text =
      call.data.empty()
          ? std::string(call.name)
          : fmt::format("{} of {} {}", call.name, call.data.size(), name_of(call.data.type));
  const std::string reason = fmt::format("rank {}: {} (number {}) did not end within {} s", rank_,
                                         text, number, deadline_);
  surroundings_.fail(reason);
  throw DeadlinePassed(reason);
}

void Watch::started(const Call& call, std::function<bool()> ended) {
  forget_ended();  // where a rank seldom waits, they would pile up
  flights_.push_back({count_++, call, std::move(ended)});
}

void Watch::check() {
  throw_if_bad();
  forget_ended();
  if (flights_.empty()) return;
  const Flight& oldest = flights_.front();
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
    if (ready()) return;
    if (surroundings_.now() - since > deadline_) pass_deadline(call, count_);
    std::this_thread::yield();
  }
}

}  // namespace frugal::engine
