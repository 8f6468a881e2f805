#include "kernels/support/fiber.h"

#include <cxxabi.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <utility>

// Defined by the sanitizers' run-time libraries, where a build has them
// (sanitizer/{common,asan,tsan}_interface*.h). Their names are reserved, for such as they are.
// NOLINTBEGIN
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** kept, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* kept, const void** bottom, size_t* size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* begin, size_t size);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
// NOLINTEND

namespace frugal::kernels {
namespace {

/// Stacks whose addresses may serve anybody afterwards: the last frames of a fiber never return,
/// and the address sanitizer would go on guarding what lies between their variables.
class Stacks {
 public:
  explicit Stacks(size_t bytes) : stacks_(bytes) {}
  boost::context::stack_context allocate() { return stacks_.allocate(); }
  void deallocate(boost::context::stack_context& stack) {
    if (__asan_unpoison_memory_region != nullptr)
      __asan_unpoison_memory_region(static_cast<char*>(stack.sp) - stack.size, stack.size);
    stacks_.deallocate(stack);
  }

 private:
  boost::context::protected_fixedsize_stack stacks_;
};

}  // namespace

Fiber::~Fiber() {
  if (own_watched_ != nullptr) __tsan_destroy_fiber(own_watched_);
}

void Fiber::start(Body body, size_t stack_bytes) {
  Stacks stacks(stack_bytes);
  const boost::context::stack_context stack = stacks.allocate();
  stack_ = static_cast<char*>(stack.sp) - stack.size;
  stack_bytes_ = stack.size;
  if (__tsan_create_fiber != nullptr) watched_ = own_watched_ = __tsan_create_fiber(0);
  context_ = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), stacks,
      [this, body = std::move(body)](boost::context::fiber&& left) {
        arrive(std::move(left));
        Fiber& next = body();
        leave(next, true);
        return std::move(next.context_);
      });
  started_ = true;
}

void Fiber::switch_to(Fiber& to) {
  leave(to, false);
  arrive(std::move(to.context_).resume());
}

/// The C++ run-time library keeps for each thread the exceptions that it throws or has caught: a
/// pointer and a count (Itanium C++ ABI, section 2.2.2). A fiber may wait while it unwinds.
void Fiber::leave(Fiber& to, bool for_good) {
  to.from_ = this;
  void* const exceptions = abi::__cxa_get_globals();
  std::memcpy(exceptions_.data(), exceptions, sizeof exceptions_);
  std::memcpy(exceptions, to.exceptions_.data(), sizeof exceptions_);
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &frames_, to.stack_, to.stack_bytes_);
  if (__tsan_switch_to_fiber != nullptr) {
    watched_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.watched_, 0);
  }
}

/// Notes where `left` goes on, for the fiber that has switched to this one.
void Fiber::arrive(boost::context::fiber&& left) {
  from_->context_ = std::move(left);
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(std::exchange(frames_, nullptr), &from_->stack_,
                                    &from_->stack_bytes_);
}

}  // namespace frugal::kernels
