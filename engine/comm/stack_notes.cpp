#include "engine/comm/stack_notes.h"

// Defined by the sanitizers' run-time libraries, where a build has them
// (sanitizer/common_interface_defs.h and sanitizer/tsan_interface.h).
// Their names are reserved, for such as they are. NOLINTBEGIN
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** kept, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* kept, const void** bottom, size_t* size);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
// NOLINTEND

namespace frugal::engine {

StackNote::~StackNote() {
  if (own_) __tsan_destroy_fiber(fiber_);
}

void StackNote::begin(void* memory, size_t bytes) {
  memory_ = memory;
  bytes_ = bytes;
  if (__tsan_create_fiber == nullptr) return;
  fiber_ = __tsan_create_fiber(0);
  own_ = true;
}

void StackNote::leave(StackNote& to) {
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(over_ ? nullptr : &kept_, to.memory_, to.bytes_);
  if (__tsan_switch_to_fiber == nullptr) return;
  if (fiber_ == nullptr) fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.fiber_, 0);
}

void StackNote::arrive() {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(kept_, nullptr, nullptr);
}

void StackNote::arrive_first(StackNote& from) {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(nullptr, &from.memory_, &from.bytes_);
}

}  // namespace frugal::engine
