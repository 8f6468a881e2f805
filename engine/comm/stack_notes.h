#pragma once
#include <cstddef>

#include "engine/namespace.h"

namespace frugal::engine {

/// Tells a sanitizer, in builds that have one, that a thread goes on with another stack.
class StackNote {
 public:
  StackNote() = default;
  ~StackNote();
  StackNote(const StackNote&) = delete;
  StackNote& operator=(const StackNote&) = delete;

  /// Begins the notes of a stack that nothing has run on yet.
  void begin(void* memory, size_t bytes);
  /// From this stack to that one: before the thread goes, and when it is back.
  void leave(StackNote& to);
  void arrive();
  /// The first time that something runs here, which comes from that stack.
  void arrive_first(StackNote& from);
  /// The thread will leave this stack for good.
  void end() { over_ = true; }

 private:
  const void* memory_ = nullptr;
  size_t bytes_ = 0;
  void* kept_ = nullptr;   // the address sanitizer's
  void* fiber_ = nullptr;  // the thread sanitizer's
  bool own_ = false, over_ = false;
};

}  // namespace frugal::engine
