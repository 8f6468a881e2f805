#pragma once
#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace emulator {

/// A flow of control with a stack of its own. A thread's own flow is one that is not started.
/// Another thread may go on with a fiber where the one before will not return to it: this system's
/// longjmp() allows that, POSIX does not promise it.
class Fiber {
 public:
  bool started() const { return stack_ != nullptr; }
  /// Has the fiber begin with `entry`, which does not return, when it is first switched to.
  void start(void (*entry)(), size_t stack_bytes);
  /// Goes on where `to` switched away, and returns when somebody switches to this one.
  void switch_to(Fiber& to);

 private:
  ucontext_t begin_;  // and all that there is under the address sanitizer
  jmp_buf at_;
  std::unique_ptr<char[]> stack_;
  bool entered_ = false;
};

}  // namespace emulator
