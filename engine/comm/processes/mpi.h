#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/processes/world.h"

/// MPI, which starts processes, connects them, and carries what is in their hosts' memory. Nothing
/// of MPI's own is needed to include this: engine/comm/processes/no_mpi.cpp implements it where the
/// program is built without.
namespace frugal::engine {

/// Reason that this build cannot run ranks as processes of MPI's; empty if it can.
std::string why_no_mpi();

/// Version of MPI, as it was loaded: "Open MPI v4.1.4"; empty in a build without it.
std::string mpi_version();

/// Lifetime of MPI in this process, one of those that a launcher has started. One at a time; all
/// calls are its thread's.
class MpiSession {
 public:
  /// Throws InputError where the build has no MPI.
  MpiSession();
  /// Waits for the other processes, unless the run has failed.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Rank 0's text, on all.
  std::string tell(const std::string& text) const;
  /// Leaves MPI as it is at the end: calls that are under way may never end.
  void give_up() { given_up_ = true; }
  /// Ends all processes, with this status.
  [[noreturn]] void abort(int status) const;

 private:
  int rank_ = 0, size_ = 1;
  bool given_up_ = false;
};

/// Divides the world into groups: all its processes call it, each with the ranks of the group that
/// it is in. A group has one communicator here, this process's. Operands
/// are in the host's memory. Sums are those of LocalGroup, bit for bit, and so is what send() does:
/// it copies, and does not wait. What is started goes on while this rank waits for anything.
///
/// No wait lasts longer than the world's deadline. Waiting throws what World::check() throws.
/// Buffers that arriving values are summed from are the communicator's own: no ledger has them.
using MakeProcessGroup = std::function<std::unique_ptr<Group>(const std::vector<int>& ranks)>;
MakeProcessGroup mpi_groups(World& world);

}  // namespace frugal::engine
