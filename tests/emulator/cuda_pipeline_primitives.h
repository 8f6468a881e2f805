#pragma once
// Copies from global to shared memory that a thread asks for and later waits for. Until then what
// it asked for is no number: nothing is copied before the thread waits.
#include <cstddef>

namespace emulator {

void copy_later(void* to_shared, const void* from, size_t bytes);
void end_group();
/// Makes the copies of all groups of this thread but the last `prior` ones.
void make_copies(size_t prior);
/// Aborts where a thread of the block has asked for copies and not waited for them.
void end_copies();

}  // namespace emulator

inline void __pipeline_memcpy_async(void* to_shared, const void* from, size_t bytes) {
  emulator::copy_later(to_shared, from, bytes);
}
inline void __pipeline_commit() { emulator::end_group(); }
inline void __pipeline_wait_prior(size_t prior) { emulator::make_copies(prior); }
