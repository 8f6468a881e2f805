#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "engine/comm/activity.h"
#include "engine/namespace.h"

namespace frugal::engine {

/// An error of kernels/support/error.h that ended a run of several ranks, as processes send it to
/// each other.
struct Failure {
  enum class Kind : uint8_t {
    error,  ///< any other exception
    input,
    cannot_write,
    out_of_memory,
    deadline,
    peer_lost,
    wrong_numbers,
    interrupted
  };
  Kind kind = Kind::error;
  int rank = -1;  ///< whose fault it is; −1 where that is not known
  std::string reason;
  /// Requested, in use and capacity, where it is out_of_memory.
  std::array<int64_t, 3> bytes = {};
};

/// Failure for the exception that a rank ended with.
Failure failure_of(const std::exception_ptr& error, int rank);
/// Throws the error that it is.
[[noreturn]] void raise(const Failure& failure);

/// Last news of a rank.
struct Heard {
  enum class Of : uint8_t {
    running,
    ended,  ///< it has left, as it should
    others  ///< it speaks to others alone
  };
  Activity::State state = {};
  double at = 0;  ///< activity_clock() here, when it was heard last
  Of of = Of::running;
};

/// The failure that rank `failure.rank` reports, with the rank whose fault it is and what each rank
/// did last.
///
/// A deadline that passed is the fault of a rank that is not heard any more, or else of the one
/// that computes longest while others wait. Wrong numbers are that of the rank that first
/// communicated one that is not finite. Where neither is so it stays the reporter's.
Failure explained(Failure failure, const std::vector<Heard>& ranks, double now);

}  // namespace frugal::engine
