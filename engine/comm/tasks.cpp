#include "engine/comm/tasks.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/support/error.h"

namespace frugal::engine::tasks {
namespace {

/// Memory for a stack, of which pages are taken when they are used, above one that may not be: who
/// goes too deep ends there, and not in another stack.
class Stack {
 public:
  static constexpr size_t bytes = 1 << 20;

  Stack()
      : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (memory_ != MAP_FAILED)
      mprotect(memory_, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  }
  ~Stack() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  void* memory() const { return memory_ == MAP_FAILED ? nullptr : memory_; }

 private:
  void* memory_;
};

/// The exceptions that a thread is throwing or has caught, which the C++ run-time library keeps for
/// the thread. A task may wait while it unwinds, so each has its own. (Itanium C++ ABI, section
/// 2.2.2: a pointer and a count.)
using Exceptions = std::array<void*, 2>;

Exceptions exchange_exceptions(const Exceptions& now) {
  Exceptions before;
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(before.data(), globals, sizeof before);
  std::memcpy(globals, now.data(), sizeof now);
  return before;
}

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
      task.stack.emplace();
      if (task.stack->memory() == nullptr)
        throw InputError(
            fmt::format("{} ranks need a stack of {} bytes each here, and there is memory for {}; "
                        "choose fewer, or raise the limit of the system",
                        count, Stack::bytes, i));
      getcontext(&task.context);
      task.context.uc_stack.ss_sp = task.stack->memory();
      task.context.uc_stack.ss_size = Stack::bytes;
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
