#pragma once
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <string_view>

#include "engine/comm/activity.h"
#include "engine/namespace.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Looks after the collectives of one rank whose device ends them without the host: whether the
/// group still stands, whether the library reports an error, and whether the oldest that is under
/// way makes progress. To be used by the rank's thread.
class Watch {
 public:
  /// Sources and sinks of the watch's news.
  struct Surroundings {
    std::function<void()> throw_if_failed;  ///< PeerLost when another rank failed
    std::function<void()> throw_if_broken;  ///< when the library reports an error
    /// Tells the others; ends what is under way.
    std::function<void(const std::exception_ptr&)> fail;
    std::function<double()> now;  ///< seconds
    /// Notes what the device waits for in the group of this name; null: notes nothing.
    Activity* activity = nullptr;
    std::string_view group = {};
  };
  /// A collective, for messages.
  struct Call {
    std::string_view name;
    View data;
  };

  /// A call is in time if it ends within `deadline` seconds after it was first looked for.
  Watch(int rank, double deadline, Surroundings surroundings)
      : rank_(rank), deadline_(deadline), surroundings_(std::move(surroundings)) {}

  /// True if it is noted what the device waits for.
  bool notes() const { return surroundings_.activity != nullptr; }
  /// A collective is under way until `ended` says otherwise, which may throw. Once `begun` the
  /// device waits for the other ranks; until then it computes.
  void started(
      const Call& call, std::function<bool()> ended,
      std::function<bool()> begun = [] { return false; });
  /// Called again and again while the rank waits for its device. Throws PeerLost, what
  /// throw_if_broken() throws, or DeadlinePassed; in the last two cases after fail().
  ///
  /// The deadline is for each collective alone: it counts from the first look that finds it the
  /// oldest one.
  void check();
  /// Looks until `ready` says so, and throws as check() does.
  void until(const Call& call, const std::function<bool()>& ready);

 private:
  struct Flight {
    uint64_t number;
    Call call;
    std::function<bool()> ended, begun;
  };
  void forget_ended();
  void waits_for(const Call& call, uint64_t number);
  void goes_on();
  void throw_if_bad();
  [[noreturn]] void pass_deadline(const Call& call, uint64_t number);

  const int rank_;
  const double deadline_;
  const Surroundings surroundings_;
  uint64_t count_ = 0;          // collectives so far
  std::deque<Flight> flights_;  // under way, in the order in which they end
  uint64_t looked_for_ = 0;     // number + 1 of the one that `since_` is about
  double since_ = 0;
  uint64_t noted_ = 0;  // number + 1 of the one for which it is noted that the device waits
};

}  // namespace frugal::engine
