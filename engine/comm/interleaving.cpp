#include "engine/comm/interleaving.h"

#include <exception>
#include <new>

#include "engine/comm/communicator.h"
#include "kernels/support/error.h"
#include "kernels/support/fiber.h"

namespace frugal::engine {
namespace {

/// Bytes, as many as a thread usually has.
constexpr size_t second_stack_bytes = 8 << 20;

/// Unwinds the one that waits when the other has failed.
struct Abandoned {};

}  // namespace

/// The two, of which the first has the caller's stack, and who of them runs.
class Interleaving::Switch {
 public:
  explicit Switch(const Work& second) : second_(second) {}

  void run(const Work& first) {
    Interleaving self(*this);
    try {
      first(self);
    } catch (const Abandoned&) {  // NOLINT: the second has failed
    } catch (...) {
      failure_ = std::current_exception();
    }
    first_over_ = true;
    if (second_fiber_.started()) {
      go_to_second();
    } else if (!failure_) {  // the first has never waited
      in_second_ = true;
      second_(self);
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  void before_wait() {
    if (in_second_ ? first_over_ : second_over_) return;
    in_second_ ? go_to_first() : go_to_second();
    if (failure_) throw Abandoned();
  }

 private:
  void go_to_second() {
    if (second_over_) return;
    if (!second_fiber_.started()) begin_second();
    in_second_ = true;
    first_fiber_.switch_to(second_fiber_);
  }
  void go_to_first() {
    in_second_ = false;
    second_fiber_.switch_to(first_fiber_);
  }

  void begin_second() try {
    second_fiber_.start(
        [this]() -> Fiber& {
          do_second();
          second_over_ = true;
          in_second_ = false;
          return first_fiber_;
        },
        second_stack_bytes);
  } catch (const std::bad_alloc&) {
    throw InputError(
        "two passes that are made together need a stack of 8 MiB beside the thread's own, and "
        "there is no memory for it; raise the limit of the system, or leave passes one after the "
        "other (--overlap-passes off)");
  }
  void do_second() {
    Interleaving self(*this);
    try {
      second_(self);
    } catch (const Abandoned&) {  // NOLINT: the first has failed
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  const Work& second_;
  Fiber first_fiber_, second_fiber_;  // the second is started when the first waits
  std::exception_ptr failure_;
  bool in_second_ = false, first_over_ = false, second_over_ = false;
};

void Interleaving::run(const Work& first, const Work& second) { Switch(second).run(first); }

void Interleaving::before_wait() { between_.before_wait(); }

void wait_beside(Interleaving* beside, Pending& started) {
  if (beside != nullptr && started.started()) beside->before_wait();
  started.wait();
}

}  // namespace frugal::engine
