#include "tests/emulator/shared.h"

#include <unwind.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"

namespace {

/// Note as EMULATED_SHARED writes it.
struct Note {
  const char* code;
  emulator::SharedVariable* variable;
  size_t bytes;
};

}  // namespace

// The linker's names for the section; none where no kernel declares anything.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" [[gnu::weak]] const Note __start_emulated_shared[], __stop_emulated_shared[];
// NOLINTEND(bugprone-reserved-identifier)

namespace emulator {

constexpr size_t line = 16, guard_bytes = 64;
alignas(line) unsigned char shared_memory[most_shared_bytes + guard_bytes];

namespace {

constexpr unsigned char unset = 0xFF;
constexpr size_t without_asking = size_t{48} << 10;

using Variables = std::map<SharedVariable*, size_t>;  ///< and their bytes

/// Variables by kernel. A declaration that is inlined several times is one variable.
const std::map<const void*, Variables>& declarations() {
  static const auto all = [] {
    std::map<const void*, Variables> by_kernel;
    for (const Note* note = __start_emulated_shared; note != __stop_emulated_shared; ++note) {
      void* const behind = const_cast<char*>(note->code) + 1;  // it may be the first instruction
      by_kernel[_Unwind_FindEnclosingFunction(behind)].emplace(note->variable, note->bytes);
    }
    return by_kernel;
  }();
  return all;
}

const Variables& declared_by(const void* kernel) {
  static const Variables none;
  const auto found = declarations().find(kernel);
  return found == declarations().end() ? none : found->second;
}

size_t in_lines(size_t bytes) { return (bytes + line - 1) / line * line; }

/// Bytes that cudaFuncSetAttribute() was asked for, by GPU and kernel.
std::map<std::pair<int, const void*>, size_t> asked;

const Variables* running = nullptr;  ///< of the kernel whose block runs
size_t dynamic_begin = 0, end = 0;

/// An access of a thread, between which barriers of its block and of its warp.
struct Access {
  uint64_t epoch = 0, warp_epoch = 0;
  unsigned thread = 0;
};
/// Readers beside the last one, since a barrier of the block.
enum class Others : uint8_t { none, of_its_warp, of_several };
/// Last accesses to four bytes.
struct Word {
  Access written, read;
  Others others = Others::none;
};
constexpr size_t word = 4, warp = 32, most_warps = 32;
Word words[most_shared_bytes / word];
uint64_t epoch = 0, warp_epochs[most_warps];

/// True if nothing orders the access before this one of the thread, which is another's.
bool beside(const Access& before, const Access& now) {
  if (before.epoch != now.epoch || before.thread == now.thread) return false;
  return before.thread / warp != now.thread / warp || before.warp_epoch == now.warp_epoch;
}

[[noreturn]] void race(const Access& before, const Access& now, size_t offset) {
  std::fprintf(stderr,
               "emulator: threads %u and %u of a block use byte %zu of its shared memory, one of "
               "them writing, without a barrier between\n",
               before.thread, now.thread, offset);
  std::abort();
}

void read(Word& at, const Access& now, size_t offset) {
  if (beside(at.written, now)) race(at.written, now, offset);
  if (at.read.epoch != now.epoch) {
    at.others = Others::none;
  } else if (beside(at.read, now)) {
    const bool same_warp = at.read.thread / warp == now.thread / warp;
    at.others = std::max(at.others, same_warp ? Others::of_its_warp : Others::of_several);
    return;
  } else if (at.others == Others::of_its_warp && at.read.warp_epoch != now.warp_epoch) {
    at.others = Others::none;
  }
  at.read = now;
}

void write(Word& at, const Access& now, size_t offset) {
  if (beside(at.written, now)) race(at.written, now, offset);
  if (beside(at.read, now)) race(at.read, now, offset);
  const bool still_read =
      at.read.epoch == now.epoch &&
      (at.others == Others::of_several ||
       (at.others == Others::of_its_warp && at.read.warp_epoch == now.warp_epoch));
  if (still_read) race(at.read, now, offset);
  at.written = now;
}

}  // namespace

void* place_of(const SharedVariable& variable) {
  if (variable.begin == nullptr)
    fault("a kernel declares shared memory in what was not inlined into it");
  return variable.begin;
}

size_t declared_shared(const void* kernel) {
  size_t bytes = 0;
  for (const auto& [variable, size] : declared_by(kernel)) bytes += in_lines(size);
  return bytes;
}

cudaError_t allows_shared(const void* kernel, size_t dynamic_bytes) {
  const size_t declared = declared_shared(kernel);
  const auto found = asked.find({current_gpu(), kernel});
  const size_t most = found != asked.end() ? declared + found->second : without_asking;
  return declared + dynamic_bytes <= most ? cudaSuccess : cudaErrorInvalidValue;
}

void require_global(const void* address) {
  const std::less<> before;
  if (!before(address, shared_memory) && before(address, shared_memory + sizeof(shared_memory)))
    fault("an access to global memory has an address of shared memory");
}

void* dynamic_shared() { return shared_memory + dynamic_begin; }

void begin_shared(const void* kernel, size_t dynamic_bytes) {
  running = &declared_by(kernel);
  dynamic_begin = 0;
  for (const auto& [variable, size] : *running) {
    variable->begin = shared_memory + dynamic_begin;
    dynamic_begin += in_lines(size);
  }
  end = dynamic_begin + dynamic_bytes;
  std::memset(shared_memory, unset, end + guard_bytes);
  order_shared();
}

void end_shared() {
  for (const auto& [variable, size] : *running) variable->begin = nullptr;
  if (!std::all_of(shared_memory + end, shared_memory + end + guard_bytes,
                   [](unsigned char c) { return c == unset; }))
    fault("a block wrote behind its shared memory");
}

void order_shared() { ++epoch; }
void order_shared(unsigned of_warp) { ++warp_epochs[of_warp]; }

void access_shared(size_t offset, size_t bytes, bool writes) {
  if (offset + bytes > end) fault("a block reaches behind its shared memory");
  const Access now{epoch, warp_epochs[threadIdx.x / warp], threadIdx.x};
  for (size_t i = offset / word; i * word < offset + bytes; ++i)
    writes ? write(words[i], now, i * word) : read(words[i], now, i * word);
}

}  // namespace emulator

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  using namespace emulator;
  const Call call;
  if (state() != cudaSuccess) return state();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      declared_shared(kernel) + static_cast<size_t>(value) > most_shared_bytes)
    return remember(cudaErrorInvalidValue);
  asked[{current_gpu(), kernel}] = static_cast<size_t>(value);
  return cudaSuccess;
}
