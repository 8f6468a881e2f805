// swapcontext() saves the mask of signals too, by two calls of the system, and blocks of threads
// switch millions of times: it is used to begin a fiber only. The address sanitizer knows stacks by
// it and not by longjmp().
#undef _FORTIFY_SOURCE  // a longjmp() that is checked goes up its stack only, and here are several
#include "tests/emulator/fiber.h"

namespace emulator {

void Fiber::start(void (*entry)(), size_t stack_bytes) {
  stack_ = std::make_unique_for_overwrite<char[]>(stack_bytes);
  getcontext(&begin_);
  begin_.uc_stack.ss_sp = stack_.get();
  begin_.uc_stack.ss_size = stack_bytes;
  begin_.uc_link = nullptr;
  makecontext(&begin_, entry, 0);
}

#ifdef __SANITIZE_ADDRESS__

void Fiber::switch_to(Fiber& to) { swapcontext(&begin_, &to.begin_); }

#else

void Fiber::switch_to(Fiber& to) {
  if (_setjmp(at_) != 0) return;
  const bool first = to.started() && !to.entered_;
  to.entered_ = true;
  if (!first) _longjmp(to.at_, 1);
  ucontext_t here;
  swapcontext(&here, &to.begin_);
}

#endif

}  // namespace emulator
