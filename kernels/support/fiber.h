#pragma once
#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace frugal::kernels {

/// A flow of control with a stack and exceptions of its own. One that was never started stands for
/// the flow that first switches away from it: a thread's, or another fiber's. Sanitizers follow.
/// Another thread may resume a fiber that the one before it will not.
class Fiber {
 public:
  /// Returns the fiber that goes on when this one has ended.
  using Body = std::function<Fiber&()>;

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  bool started() const { return started_; }
  /// Begins `body` when this fiber is first switched to. Below its stack lies a page that may not
  /// be touched. Throws std::bad_alloc.
  void start(Body body, size_t stack_bytes);
  /// Suspends this fiber, which runs, and resumes `to`. Returns when another switches to this one.
  void switch_to(Fiber& to);

 private:
  void leave(Fiber& to, bool for_good);
  void arrive(boost::context::fiber&& left);

  boost::context::fiber context_;  // where it goes on; none while it runs
  Fiber* from_ = nullptr;          // who switched to it last
  std::array<void*, 2> exceptions_{};
  bool started_ = false;
  // What sanitizers know of it: its stack, the address sanitizer's frames, the thread sanitizer's
  // fiber.
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* frames_ = nullptr;
  void *watched_ = nullptr, *own_watched_ = nullptr;
};

}  // namespace frugal::kernels
