#include "engine/comm/stack.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace frugal::engine {

Stack::Stack(size_t bytes)
    : bytes_(bytes),
      memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  if (memory_ == MAP_FAILED)
    memory_ = nullptr;
  else
    mprotect(memory_, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
}

Stack::~Stack() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Exceptions exchange_exceptions(const Exceptions& now) {
  Exceptions before;
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(before.data(), globals, sizeof before);
  std::memcpy(globals, now.data(), sizeof now);
  return before;
}

}  // namespace frugal::engine
