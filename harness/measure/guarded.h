#pragma once
#include <functional>
#include <optional>

#include "harness/record/record.h"
#include "kernels/device.h"

namespace frugal::harness {

/// Why a record is not whole.
inline constexpr const char* interrupted_reason =
    "stopped by a signal; the same command runs this case again, from its start";

/// Runs work and turns what it throws into the record's status and reason: OutOfMemory into oom,
/// DeadlinePassed into timeout, PeerLost into peer_lost, Interrupted into interrupted, everything
/// else into failed. Interrupted and InputError are thrown on.
void run_guarded(Record& record, const std::function<void()>& work);

/// What a device holds for all that was allocated so far (Memory::reserved).
std::optional<int64_t> reserved_by(const Device& device);

}  // namespace frugal::harness
