#include "engine/comm/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "kernels/support/error.h"
#include "kernels/support/fiber.h"

namespace frugal::engine::tasks {
namespace {

constexpr size_t stack_bytes = 1 << 20;

}  // namespace

struct Task {
  Fiber fiber;               // not started: the thread's own flow
  Task** waiting = nullptr;  // where others find it
  uint64_t since = 0;        // it waits; the order in which tasks began to
  bool stuck = false;
};

namespace {

/// The tasks of one run().
class Loop {
 public:
  Loop(size_t count, const std::function<void(size_t)>& body) : body_(body), left_(count) {
    for (size_t i = 0; i < count; ++i) try {
        Task& task = *tasks_.emplace_back(std::make_unique<Task>());
        task.fiber.start(
            [this, i]() -> Fiber& {
              body_(i);
              --left_;
              return (running_ = &next())->fiber;
            },
            stack_bytes);
        ready_.push_back(&task);
      } catch (const std::bad_alloc&) {
        throw InputError(
            fmt::format("{} ranks need a stack of {} bytes each here, and there is memory for {}; "
                        "choose fewer, or raise the limit of the system",
                        count, stack_bytes, i));
      }
  }

  void run() {
    Loop* const outer = std::exchange(current, this);
    running_ = &main_;
    if (left_ > 0) go_on();
    current = outer;
  }
  bool wait(Task*& waiting) {
    Task& self = *running_;
    waiting = &self;
    self.waiting = &waiting;
    self.since = ++waits_;
    go_on();
    return !std::exchange(self.stuck, false);
  }
  void wake(Task& task) {
    *std::exchange(task.waiting, nullptr) = nullptr;
    ready_.push_back(&task);
  }

  static thread_local Loop* current;

 private:
  /// Lets another task run, or the same if it is the next.
  void go_on() {
    Task& from = *running_;
    running_ = &next();
    if (running_ != &from) from.fiber.switch_to(running_->fiber);
  }
  Task& next() {
    if (left_ == 0) return main_;
    if (ready_.empty()) {
      const auto longest = std::ranges::min_element(tasks_, {}, [](const auto& task) {
        return task->waiting == nullptr ? UINT64_MAX : task->since;
      });
      (*longest)->stuck = true;
      wake(**longest);
    }
    Task& task = *ready_.front();
    ready_.pop_front();
    return task;
  }

  const std::function<void(size_t)>& body_;
  size_t left_;  // not ended
  std::vector<std::unique_ptr<Task>> tasks_;
  std::deque<Task*> ready_;
  Task main_;  // run()'s caller
  Task* running_ = nullptr;
  uint64_t waits_ = 0;
};

thread_local Loop* Loop::current = nullptr;

}  // namespace

void run(size_t count, const std::function<void(size_t)>& body) { Loop(count, body).run(); }

bool inside() { return Loop::current != nullptr; }

bool wait(Task*& waiting) { return Loop::current->wait(waiting); }

void wake(Task*& waiting) {
  if (waiting != nullptr) Loop::current->wake(*waiting);
}

}  // namespace frugal::engine::tasks

namespace frugal::engine {
namespace {

/// Bytes, as many as a thread usually has.
constexpr size_t second_stack_bytes = 8 << 20;

/// Unwinds the one that waits when the other has failed.
struct Abandoned {};

/// Two pieces of work, of which the first has the caller's stack, and who of them runs.
class FiberPair final : public Interleaving {
 public:
  explicit FiberPair(const Work& second) : second_(second) {}

  void run(const Work& first) {
    try {
      first(*this);
    } catch (const Abandoned&) {  // NOLINT: the second has failed
    } catch (...) {
      failure_ = std::current_exception();
    }
    first_over_ = true;
    if (second_fiber_.started()) {
      go_to_second();
    } else if (!failure_) {  // the first has never waited
      in_second_ = true;
      second_(*this);
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  void before_wait() override {
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
        "other (overlap_passes=off)");
  }
  void do_second() {
    try {
      second_(*this);
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

}  // namespace

void Interleaving::run(const Work& first, const Work& second) { FiberPair(second).run(first); }

void wait_beside(Interleaving* beside, Pending& started) {
  if (beside != nullptr && started.started()) beside->before_wait();
  started.wait();
}

}  // namespace frugal::engine
