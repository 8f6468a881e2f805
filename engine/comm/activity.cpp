#include "engine/comm/activity.h"

#include <fmt/format.h>

#include <chrono>

namespace frugal::engine {

double activity_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Activity::Call::text() const {
  return fmt::format("{} {} of the {} group ({} B)", name, number, group, bytes);
}

std::string Activity::State::text(double now) const {
  const double seconds = now - since;
  if (call.name.empty()) return "has not communicated yet";
  return waiting ? fmt::format("waits for {} since {:.3g} s", call.text(), seconds)
                 : fmt::format("computes since {:.3g} s, after {}", seconds, call.text());
}

void Activity::waits_for(const Call& call) {
  const double now = activity_clock();
  const std::lock_guard lock(mutex_);
  state_.call = call;
  state_.waiting = true;
  state_.since = now;
}

void Activity::goes_on() {
  const double now = activity_clock();
  const std::lock_guard lock(mutex_);
  state_.waiting = false;
  waited_ += now - state_.since;
  state_.since = now;
}

void Activity::found_not_finite(const Call& call) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  if (!state_.not_finite.name.empty()) return;
  state_.not_finite = call;
  state_.not_finite_at = now.count();
}

Activity::State Activity::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Activity::reset() {
  const std::lock_guard lock(mutex_);
  state_ = {};
  state_.since = activity_clock();
}

}  // namespace frugal::engine
