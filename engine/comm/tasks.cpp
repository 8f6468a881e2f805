#include "engine/comm/tasks.h"

#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/comm/stack.h"
#include "kernels/support/error.h"

namespace frugal::engine::tasks {
namespace {

constexpr size_t stack_bytes = 1 << 20;

}  // namespace

struct Task {
  size_t index = 0;
  std::optional<Stack> stack;  // none of the thread's own
  ucontext_t context{};
  Exceptions exceptions{};
  Task** waiting = nullptr;  // where others find it
  uint64_t since = 0;        // it waits; the order in which tasks began to
  bool stuck = false;
};

namespace {

/// The tasks of one run().
class Loop {
 public:
  Loop(size_t count, const std::function<void(size_t)>& body) : body_(body), left_(count) {
    for (size_t i = 0; i < count; ++i) {
      tasks_.push_back(std::make_unique<Task>());
      Task& task = *tasks_.back();
      task.index = i;
      task.stack.emplace(stack_bytes);
      if (task.stack->memory() == nullptr)
        throw InputError(
            fmt::format("{} ranks need a stack of {} bytes each here, and there is memory for {}; "
                        "choose fewer, or raise the limit of the system",
                        count, stack_bytes, i));
      getcontext(&task.context);
      task.context.uc_stack.ss_sp = task.stack->memory();
      task.context.uc_stack.ss_size = stack_bytes;
      makecontext(&task.context, &Loop::begin, 0);
      ready_.push_back(&task);
    }
  }

  void run() {
    Loop* const outer = std::exchange(current, this);
    main_.index = tasks_.size();
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
  /// The first thing that a task does, and the last.
  static void begin() {
    Loop& loop = *current;
    loop.body_(loop.running_->index);
    --loop.left_;
    loop.go_on();
  }
  /// Lets another task run, or the same if it is the next.
  void go_on() {
    Task& from = *running_;
    running_ = &next();
    if (running_ == &from) return;
    from.exceptions = exchange_exceptions(running_->exceptions);
    swapcontext(&from.context, &running_->context);
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

bool available() { return true; }

void run(size_t count, const std::function<void(size_t)>& body) { Loop(count, body).run(); }

bool inside() { return Loop::current != nullptr; }

bool wait(Task*& waiting) { return Loop::current->wait(waiting); }

void wake(Task*& waiting) {
  if (waiting != nullptr) Loop::current->wake(*waiting);
}

}  // namespace frugal::engine::tasks
