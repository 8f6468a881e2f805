// The compiler has kernels call these before each access to memory (-fsanitize=thread), for a
// library that is not linked: those to shared memory are looked at.
#include "tests/emulator/shared.h"

#ifndef __SANITIZE_THREAD__

namespace {

void access(const void* address, size_t bytes, bool writes) {
  const auto offset =
      static_cast<size_t>(static_cast<const unsigned char*>(address) - emulator::shared_memory);
  if (offset < emulator::most_shared_bytes) emulator::access_shared(offset, bytes, writes);
}

}  // namespace

#define ACCESSES(bytes)                                                               \
  void __tsan_read##bytes(void* address) { access(address, bytes, false); }           \
  void __tsan_write##bytes(void* address) { access(address, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* address) { access(address, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* address) { access(address, bytes, true); }

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* address, size_t bytes) { access(address, bytes, false); }
void __tsan_write_range(void* address, size_t bytes) { access(address, bytes, true); }
void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
}
// NOLINTEND(bugprone-reserved-identifier)

#endif
