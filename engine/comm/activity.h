#pragma once
#include <cstdint>
#include <mutex>
#include <string>

#include "engine/namespace.h"

namespace frugal::engine {

/// Notes of a rank's own thread: what it does and has waited for. Any thread may read them, to say
/// what each rank did last when one of them is lost.
class Activity {
 public:
  /// A collective or message.
  struct Call {
    std::string name = {};   ///< "all-reduce"; empty: none so far
    std::string group = {};  ///< "tensor": the name of a GroupSpec
    uint64_t number = 0;     ///< of this group's calls on this rank, from 0
    int64_t bytes = 0;       ///< on this rank

    /// "all-reduce 17 of the tensor group (4096 B)"
    std::string text() const;
  };
  /// Activity at one moment.
  struct State {
    Call call;             ///< the last
    bool waiting = false;  ///< for it; otherwise the rank computes
    double since = 0;      ///< activity_clock() when it began to
    /// The first call whose operand held what is not finite; without a name where there was none.
    Call not_finite = {};
    double not_finite_at = 0;  ///< seconds, of a clock that machines agree on

    /// "waits for all-reduce 17 of the tensor group (4096 B) since 4.98 s".
    std::string text(double now) const;
  };

  Activity() = default;
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void waits_for(const Call& call);
  void goes_on();
  void found_not_finite(const Call& call);
  State state() const;
  /// Seconds waited since the beginning; to be read by the rank's own thread.
  double waited() const { return waited_; }
  /// Nothing has happened yet.
  void reset();

 private:
  mutable std::mutex mutex_;  // guards state_
  State state_;
  double waited_ = 0;
};

/// Seconds on a clock that all processes of a machine share and nobody sets.
double activity_clock();

}  // namespace frugal::engine
