#pragma once
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/comm/processes/mpi.h"
#include "harness/namespace.h"
#include "harness/place/rank_gpus.h"
#include "kernels/cpu/cores.h"

namespace frugal::harness {

struct Torchrun;

/// Where one of them runs, and what it was told that may decide how fast.
struct RankPlaceHere {
  std::string host;
  Processors processors;                         ///< that it may run on
  std::map<std::string, std::string> variables;  ///< those of environment_variables()
};

/// The processes that a launcher has started together, one for each rank; this program is one of
/// them. The first, rank 0, writes what there is to write.
class Processes {
 public:
  /// Processes of this program; null where it was started alone, or with others unknown to it.
  static Processes* here();
  /// Whether this process writes what is written once: it is alone, or the first.
  static bool writes() { return here() == nullptr || here()->first(); }
  /// Whether this one speaks to the user: it is alone, or the first that is not lost.
  static bool speaks();
  /// Whether srun has started them, not mpirun.
  static bool started_by_srun();

  /// To be called first in main(), where a launcher has set its variables: waits for the other
  /// processes. Throws InputError where they cannot be reached, and where they were started without
  /// what connects them.
  static std::unique_ptr<Processes> if_launched();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  bool first() const { return rank() == 0; }
  World& world() { return *world_; }
  /// Whether MPI has started them, and so carries what is in their hosts' memory.
  bool by_mpi() const { return session_ != nullptr; }
  /// Empty where MPI has not started them.
  const MakeProcessGroup& groups() const { return groups_; }
  /// What starts so many of them, before a command: "mpirun -n 4 ".
  std::string launcher() const;

  /// Throws InputError where several processes run `what`, which is one.
  static void need_one(const std::string& what);

  /// Places of all ranks, in their order.
  const std::vector<RankPlaceHere>& places() const { return places_; }
  int hosts() const;
  /// Ranks on this one's host.
  int on_this_host() const;
  /// Processors of this one's host that its ranks may run on.
  int processors_here() const;
  /// The GPU of each rank. All processes call it, the first time. Throws InputError in all of them
  /// where one has none.
  const std::vector<RankGpu>& gpus();
  /// GPUs that all of them have together, and ranks on the one that has the most. gpus() was called
  /// before.
  int distinct_gpus() const;
  int ranks_on_a_gpu() const;

  /// The first process's text.
  std::string of_first(const std::string& text) { return world_->exchange(text).front(); }
  /// The first process's number; this one's where it is alone.
  static double of_first(double number);
  /// Throws InputError in all processes, which names the first rank and key whose value is not that
  /// of rank 0. Both are objects.
  void agree(const nlohmann::json& mine);

  /// What environment() says of them.
  nlohmann::json environment() const;

  /// To be returned from main(): takes leave of the others. Where the run has failed, it ends all
  /// of them, with this status.
  int end(int status);

 private:
  /// Started by MPI, or by torchrun.
  Processes();
  explicit Processes(const Torchrun& told);
  void join(int rank, int size, const World::Tell& tell, World::Options options);
  std::vector<std::string> host_of_each() const;

  std::unique_ptr<MpiSession> session_;
  std::unique_ptr<World> world_;
  MakeProcessGroup groups_;
  std::vector<RankPlaceHere> places_;
  std::vector<RankGpu> gpus_;  // once they are asked for
};

}  // namespace frugal::harness
