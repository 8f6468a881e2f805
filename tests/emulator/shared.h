#pragma once
#include <cstddef>
#include <cstdint>

#include "tests/emulator/cuda_host.h"

/// The shared memory of the block that runs: what its kernel declares, then what its launch adds.
/// What a kernel declares is known before it runs: the compiler leaves a note of each declaration
/// in the kernel's code, into which all that it calls is inlined.
namespace emulator {

/// Place of a variable while its kernel runs; null at other times.
struct SharedVariable {
  void* begin;
};
/// begin; aborts where the launch did not know that this kernel has the variable.
void* place_of(const SharedVariable& variable);

/// Bytes of what the kernel declares, each variable at a multiple of 16.
size_t declared_shared(const void* kernel);
/// Answer of a GPU to a launch with so many bytes more.
cudaError_t allows_shared(const void* kernel, size_t dynamic_bytes);
void* dynamic_shared();

/// Fills the block's memory with no numbers before it begins.
void begin_shared(const void* kernel, size_t dynamic_bytes);
/// Aborts where something was written behind.
void end_shared();
/// Orders what all threads of the block, or those of a warp, did before and will do.
void order_shared();
void order_shared(unsigned warp);
/// Aborts where another thread's access to a word, one of both writing, is ordered by nothing.
void access_shared(size_t offset, size_t bytes, bool writes);

/// Aborts where an address is of shared memory: what is for global memory alone cannot use it.
void require_global(const void* address);

constexpr size_t most_shared_bytes = size_t{227} << 10;
/// Memory of blocks, one after the other.
extern unsigned char shared_memory[];

}  // namespace emulator

/// Declares type name extents, and leaves the note: where the declaration is, which variable, how
/// many bytes.
#define EMULATED_SHARED(type, name, extents)                  \
  static emulator::SharedVariable name##_variable;            \
  asm volatile(                                               \
      "1: .pushsection emulated_shared, \"aw?\", @progbits\n" \
      ".dc.a 1b, %c0, %c1\n"                                  \
      ".popsection" ::"i"(&name##_variable),                  \
      "i"(sizeof(type extents)));                             \
  auto& name = *reinterpret_cast<type(*) extents>(emulator::place_of(name##_variable))
