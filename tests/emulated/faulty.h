#pragma once
#include <cstdint>

#include "kernels/cuda/ops/launch.h"

/// Kernels with a fault each, and what they are without it: what the emulator must see.
namespace frugal::kernels::faulty {

/// Kernels that declare 512 bytes of shared memory, and one that declares 64, by a function 256 of
/// floats, and by the same, of which it has another instance, 256 of integers.
enum class Declaring : uint8_t { first, second, third, nested };
const void* address_of(Declaring kernel);
/// CUDA's own calls.
cudaError_t ask(Declaring kernel, size_t dynamic_bytes);
cudaError_t launch_unasked(Declaring kernel, size_t dynamic_bytes);
/// Launches by launch_with_shared().
void launch(const cuda::Launch& on, Declaring kernel, size_t dynamic_bytes);

/// sums[b] := the sum of what was left in the shared memory of block b.
void read_before_writing(const cuda::Launch& on, int64_t blocks, float* sums);

enum class Lanes : uint8_t {
  all,             ///< no fault
  halves,          ///< no fault: two masks of a warp
  caller_unnamed,  ///< a lane calls with a mask without itself
  source_unnamed,  ///< a lane reads another that is not in the mask
  some_elsewhere,  ///< half of the lanes shuffle by another function
  some_ended,      ///< half of the lanes that are named have ended
  some_at_barrier  ///< half of the lanes that are named wait for the block
};
/// sums[l] := what lane l of a warp has after the exchange of lane numbers.
void exchange(const cuda::Launch& on, Lanes lanes, int* sums);
/// votes[l] := the lanes whose number is odd, in a ballot of all but the last four.
void vote(const cuda::Launch& on, bool named, unsigned* votes);

/// 32 lines of 16 bytes, by stores of global memory, to `to` or to shared memory.
void put(const cuda::Launch& on, bool to_shared, uint4* to);

enum class Order : uint8_t {
  by_barriers,       ///< no fault
  none_after_write,  ///< what one thread wrote another reads
  none_after_read,   ///< what one thread reads another writes in the next round
  by_warp,           ///< no fault: threads of one warp and its own barrier
  by_shuffle         ///< a shuffle orders no memory
};
/// Threads of a block pass numbers on, twice: to[t] := from[(t + 2 · by) mod 64].
void pass_on(const cuda::Launch& on, Order order, const float* from, float* to);

enum class Wait : uint8_t {
  for_all,  ///< no fault
  for_one,  ///< the last copy is read with those before it
  for_none  ///< the block ends with copies on their way
};
/// Sums of two numbers that a thread copies to shared memory: to[t] := from[t] + from[32 + t].
void sum_copies(const cuda::Launch& on, Wait wait, const float* from, float* to);

/// to[i] := a[i] · b[i] + c[i], the product rounded by itself or as the compiler likes.
void multiply_add(const cuda::Launch& on, bool apart, const float* a, const float* b,
                  const float* c, float* to);

}  // namespace frugal::kernels::faulty
