#pragma once
#include "engine/comm/failure.h"
#include "harness/record/cell.h"

namespace frugal::harness {

/// The exit statuses (docs/cli.md).
enum class Exit : uint8_t {
  done = 0,
  claim_failed = 1,
  bad_input = 2,
  out_of_memory = 3,
  deadline = 4,
  peer_lost = 5,
  wrong_numbers = 6,
  gpu_lost = 7,
  interrupted = 130
};
/// What a record's status means for the command that made it.
Exit exit_of(Status status);
/// What an error means for the command that it ends.
Exit exit_of(Failure::Kind kind);

}  // namespace frugal::harness
