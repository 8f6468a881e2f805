#include "engine/comm/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

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
