#pragma once
#include <optional>
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// What torchrun tells each process that it starts, by variables: RANK, WORLD_SIZE, LOCAL_RANK,
/// MASTER_ADDR and MASTER_PORT.
struct Torchrun {
  int rank = 0, size = 1;
  std::string host;  ///< rank 0's: MASTER_ADDR
  /// Where rank 0 waits for the others. MASTER_PORT is free for that, but where torchrun itself
  /// waits there, as TORCHELASTIC_USE_AGENT_STORE says: then it is the port behind.
  int port = 0;
  /// Name of this start, common to its processes: another run or restart has another one.
  std::string name;

  /// Where these variables are set, for several processes, and MPI has not started the same ones.
  /// Throws InputError for a value that torchrun does not set.
  static std::optional<Torchrun> found();
};

}  // namespace frugal::harness
