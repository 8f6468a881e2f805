#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tests/emulator/cuda_pipeline_primitives.h"
#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/shared.h"

namespace emulator {
namespace {

struct Copy {
  unsigned char* to;
  const void* from;
  size_t bytes;
};
using Group = std::vector<Copy>;
struct Asked {
  Group open;                ///< of no group yet
  std::deque<Group> groups;  ///< oldest first
};
std::map<unsigned, Asked> by_thread;

void write(const Copy& copy) {
  access_shared(static_cast<size_t>(copy.to - shared_memory), copy.bytes, true);
}

bool is_aligned(const void* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

}  // namespace

void copy_later(void* to_shared, const void* from, size_t bytes) {
  require_global(from);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || !is_aligned(to_shared, bytes) ||
      !is_aligned(from, bytes))
    fault("a copy to shared memory is not of 4, 8 or 16 bytes that are aligned so");
  const Copy copy{static_cast<unsigned char*>(to_shared), from, bytes};
  constexpr int no_number = 0xFF;
  write(copy);
  std::memset(copy.to, no_number, bytes);
  by_thread[threadIdx.x].open.push_back(copy);
}

void end_group() {
  Asked& asked = by_thread[threadIdx.x];
  asked.groups.push_back(std::exchange(asked.open, {}));
}

void make_copies(size_t prior) {
  std::deque<Group>& groups = by_thread[threadIdx.x].groups;
  for (; groups.size() > prior; groups.pop_front())
    for (const Copy& copy : groups.front()) {
      write(copy);
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
}

void end_copies() {
  for (const auto& [thread, asked] : by_thread) {
    bool any = !asked.open.empty();
    for (const Group& group : asked.groups) any |= !group.empty();
    if (any) fault("a thread ends before what it asked for has come to shared memory");
  }
  by_thread.clear();
}

}  // namespace emulator
