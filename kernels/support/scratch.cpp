#include "kernels/support/scratch.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <new>

namespace frugal::kernels {
namespace {

constexpr std::align_val_t alignment{64};

struct Free {
  void operator()(void* address) const { ::operator delete(address, alignment); }
};
struct Buffer {
  std::unique_ptr<void, Free> memory;
  size_t size = 0;
};

std::atomic<int64_t> last_level_cache = [] {
  const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return known > 0 ? int64_t{known} : int64_t{32} << 20;
}();

}  // namespace

void* scratch(Scratch kind, size_t bytes) {
  thread_local std::array<Buffer, static_cast<size_t>(Scratch::attention) + 1> buffers;
  Buffer& buffer = buffers[static_cast<size_t>(kind)];
  if (buffer.size < bytes) {
    buffer.memory.reset();
    buffer.memory.reset(::operator new(bytes, alignment));
    buffer.size = bytes;
  }
  return buffer.memory.get();
}

int64_t last_level_cache_bytes() { return last_level_cache; }

void set_last_level_cache_bytes(int64_t bytes) { last_level_cache = bytes; }

}  // namespace frugal::kernels
