#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <string>

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

  std::string serialized() const;
  static Failure parsed(const std::string& text);
};

/// Failure for the exception that a rank ended with.
Failure failure_of(const std::exception_ptr& error, int rank);
/// Throws the error that it is.
[[noreturn]] void raise(const Failure& failure);

}  // namespace frugal::engine
