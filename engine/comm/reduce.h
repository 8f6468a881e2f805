#pragma once
#include "engine/namespace.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Σ over `sources` of their elements [begin, begin + count), written to each of `targets` from its
/// element target_begin on. All are of `type`; sums are in its accumulation type and in the order
/// of the sources, and rounded once. A target may be a source where both begin at the same element.
void reduce_into(DType type, const void* const* sources, int source_count, int64_t begin,
                 int64_t count, void* const* targets, int target_count, int64_t target_begin);

}  // namespace frugal::engine
