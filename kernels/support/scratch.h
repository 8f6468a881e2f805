#pragma once
#include <cstddef>
#include <cstdint>

namespace frugal::kernels {

/// Purpose of a scratch buffer; one operation may use several at a time.
enum class Scratch : unsigned char { row, partial_sums, gemm, widened, attention };

/// Returns at least this many 64-byte aligned bytes, the calling thread's own until it asks for the
/// same kind again. They stay with the thread: small beside tensors, and not counted with them.
void* scratch(Scratch kind, size_t bytes);

/// Size of the processor's cache; 32 MiB where it does not say. Larger outputs are stored past it.
int64_t last_level_cache_bytes();

/// Sets last_level_cache_bytes(): for tests of how large outputs are stored.
void set_last_level_cache_bytes(int64_t bytes);

}  // namespace frugal::kernels
