#pragma once
#include <array>
#include <cstddef>

#include "engine/namespace.h"

namespace frugal::engine {

/// Memory for a stack, of which pages are taken when they are used, above one that may not be: who
/// goes too deep ends there, and not in another stack.
class Stack {
 public:
  explicit Stack(size_t bytes);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  /// Null where there was none.
  void* memory() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  const size_t bytes_;
  void* memory_;
};

/// The exceptions that a thread is throwing or has caught, which the C++ run-time library keeps for
/// the thread. Who has a stack may wait while it unwinds, so each has its own. (Itanium C++ ABI,
/// section 2.2.2: a pointer and a count.)
using Exceptions = std::array<void*, 2>;

/// Returns those of the stack that is left.
Exceptions exchange_exceptions(const Exceptions& now);

}  // namespace frugal::engine
