#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "engine/namespace.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Looks after the collectives of one rank whose device ends them without the host: whether the
/// group still stands, whether the library reports an error, and whether the oldest that is under
/// way makes progress. To be used by the rank's thread.
class Watch {
 public:
  /// Where the watch learns things and says them.
  struct Surroundings {
    std::function<void()> throw_if_failed;         ///< PeerLost when another rank failed
    std::function<void()> throw_if_broken;         ///< when the library reports an error
    std::function<void(const std::string&)> fail;  ///< tells the others; ends what is under way
    std::function<double()> now;                   ///< seconds
  };
  /// A collective, for messages.
  struct Call {
    std::string_view name;
    View data;
  };

  /// What ends within `deadline` seconds of being looked for is in time.
  Watch(int rank, double deadline, Surroundings surroundings)
      : rank_(rank), deadline_(deadline), surroundings_(std::move(surroundings)) {}

  /// A collective is under way until `ended` says otherwise, which may throw.
  void started(const Call& call, std::function<bool()> ended);
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
    std::function<bool()> ended;
  };
  void forget_ended();
  void throw_if_bad();
  [[noreturn]] void pass_deadline(const Call& call, uint64_t number);

  const int rank_;
  const double deadline_;
  const Surroundings surroundings_;
  uint64_t count_ = 0;          // collectives so far
  std::deque<Flight> flights_;  // under way, in the order in which they end
  uint64_t looked_for_ = 0;     // number + 1 of the one that `since_` is about
  double since_ = 0;
};

}  // namespace frugal::engine
