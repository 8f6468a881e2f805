#include "engine/comm/interleaving.h"

#include <ucontext.h>

#include <exception>
#include <optional>
#include <utility>

#include "engine/comm/communicator.h"
#include "engine/comm/stack.h"
#include "engine/comm/stack_notes.h"
#include "kernels/support/error.h"

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
    if (stack_) {
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
    if (!stack_) begin_second();
    in_second_ = true;
    first_exceptions_ = exchange_exceptions(second_exceptions_);
    first_note_.leave(second_note_);
    swapcontext(&first_context_, &second_context_);
    first_note_.arrive();
  }
  void go_to_first() {
    in_second_ = false;
    second_exceptions_ = exchange_exceptions(first_exceptions_);
    second_note_.leave(first_note_);
    swapcontext(&second_context_, &first_context_);
    second_note_.arrive();
  }

  void begin_second() {
    stack_.emplace(second_stack_bytes);
    if (stack_->memory() == nullptr) {
      stack_.reset();
      throw InputError(
          "two passes that are made together need a stack of 8 MiB beside the thread's own, and "
          "there is no memory for it; raise the limit of the system, or leave passes one after the "
          "other (--overlap-passes off)");
    }
    second_note_.begin(stack_->memory(), stack_->bytes());
    getcontext(&second_context_);
    second_context_.uc_stack.ss_sp = stack_->memory();
    second_context_.uc_stack.ss_size = stack_->bytes();
    begins_ = this;
    makecontext(&second_context_, &Switch::second_stack, 0);
  }
  /// All that the second stack has.
  static void second_stack() {
    Switch& self = *std::exchange(begins_, nullptr);
    self.second_note_.arrive_first(self.first_note_);
    self.do_second();
    self.second_over_ = true;
    self.second_note_.end();
    self.go_to_first();
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

  static thread_local Switch* begins_;

  const Work& second_;
  std::optional<Stack> stack_;  // none until the first waits
  ucontext_t first_context_{}, second_context_{};
  Exceptions first_exceptions_{}, second_exceptions_{};
  StackNote first_note_, second_note_;
  std::exception_ptr failure_;
  bool in_second_ = false, first_over_ = false, second_over_ = false;
};

thread_local Interleaving::Switch* Interleaving::Switch::begins_ = nullptr;

void Interleaving::run(const Work& first, const Work& second) { Switch(second).run(first); }

void Interleaving::before_wait() { between_.before_wait(); }

void wait_beside(Interleaving* beside, Pending& started) {
  if (beside != nullptr && started.started()) beside->before_wait();
  started.wait();
}

}  // namespace frugal::engine
