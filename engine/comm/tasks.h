#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "engine/namespace.h"

namespace frugal::engine {

/// Tasks of one thread, each with a stack of its own. One runs until it waits for another one; then
/// the one that has been ready for longest does. So waiting costs no help of the system, and what
/// happens in which order is always the same. For ranks that compute nothing, as those of virtual
/// devices.
namespace tasks {

/// Calls body(0) to body(count − 1), which throw nothing, and returns when all have ended. Throws
/// InputError where there is no memory for their stacks.
void run(size_t count, const std::function<void(size_t)>& body);
/// True if the caller is a task.
bool inside();

struct Task;
/// The caller waits, and `waiting` is who it is, until somebody wakes it up. False: every task
/// waits, and this one has for longest, so nobody ever will.
bool wait(Task*& waiting);
/// Makes ready whoever waits there, if anybody does. Called by tasks of the same thread only.
void wake(Task*& waiting);

}  // namespace tasks

/// A condition variable for threads and tasks: one of them waits until another changes something
/// that a mutex guards.
class Signal {
 public:
  enum class End : uint8_t {
    ready,
    late,  ///< a thread's: it has waited so long
    stuck  ///< a task's, for which time does not count: all tasks wait
  };

  template <class Ready>
  End wait(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds at_most, Ready ready) {
    if (!tasks::inside())
      return changed_.wait_until(lock, std::chrono::steady_clock::now() + at_most, ready)
                 ? End::ready
                 : End::late;
    while (!ready()) {
      lock.unlock();
      const bool woken = tasks::wait(waiting_);
      lock.lock();
      if (!woken && !ready()) return End::stuck;
    }
    return End::ready;
  }
  /// Waits without a deadline.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready) {
    if (!tasks::inside())
      changed_.wait(lock, ready);
    else
      wait(lock, {}, ready);
  }
  void notify() {
    changed_.notify_all();
    tasks::wake(waiting_);
  }

 private:
  std::condition_variable changed_;
  tasks::Task* waiting_ = nullptr;
};

class Pending;

/// Two pieces of work that one rank interleaves: while one would have the compute stream wait for
/// other ranks, the other issues what it computes. Each has a stack of its own, and both
/// are the caller's thread. They take turns where they wait and nowhere else, so ranks that do the
/// same start their collectives in the same order.
class Interleaving {
 public:
  using Work = std::function<void(Interleaving&)>;

  /// Does both, beginning with the first, and returns when both have ended. Where one of them
  /// throws, the other is unwound from where it waits, and what was thrown goes on from here.
  /// Throws InputError where there is no memory for a stack.
  static void run(const Work& first, const Work& second);

  /// Called by the one that is about to wait for other ranks. The other runs until it is about to
  /// wait too, or has ended; returns at once if it has.
  virtual void before_wait() = 0;

 protected:
  ~Interleaving() = default;
};

/// Waits for what was started; until then what is `beside` it, if anything is, goes on.
void wait_beside(Interleaving* beside, Pending& started);

}  // namespace frugal::engine
