#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/failure.h"
#include "engine/comm/local.h"
#include "engine/comm/processes/mpi.h"
#include "engine/rank.h"
#include "kernels/cpu/cores.h"

namespace frugal::kernels {
struct Machine;
}  // namespace frugal::kernels

namespace frugal::engine {

/// Makes the ranks of a run and executes a function on each of them.
class Cluster {
 public:
  Cluster() = default;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  virtual ~Cluster() = default;

  /// Calls body once per rank, concurrently, and returns when all have ended. An exception of one
  /// rank aborts the others and is thrown here (the first rank's that is not itself a PeerLost).
  virtual void run(const std::function<void(Rank&)>& body) = 0;
  /// The ranks that exist here: all t · c · w · p of them on a real device; on a virtual one, one
  /// for each stage, which stands for all of it.
  virtual int local_ranks() const = 0;
  /// False where one rank stands for all: losses and gradients mean nothing then.
  virtual bool whole() const { return true; }
  virtual Rank& rank(int index) = 0;
  /// Number of ranks of all processes.
  virtual int ranks() const { return local_ranks(); }
  /// True where ranks note how long they wait for each other (Rank::activity).
  virtual bool notes_waiting() const { return false; }
  /// The number, among all, of the first that is here.
  virtual int first_rank() const { return 0; }
  /// Gathers a text of each process, in the order of their ranks. All call it, outside of run().
  virtual std::vector<std::string> exchange(const std::string& mine) { return {mine}; }
  /// Gathers for the process of rank 0 alone; the others get nothing.
  virtual std::vector<std::string> gather(const std::string& mine) { return exchange(mine); }
};

/// Called where ranks are threads of this process and one of them has not ended so long after
/// others that it never may: it cannot be ended alone. Empty: the others wait for it.
std::function<void(const Failure&)>& on_stuck_rank();

/// Kernel threads of each of a run's ranks on the CPU, which divide `threads` among them.
int threads_each(const RunConfig& config, int threads);

/// Cores for each rank, as many as it has threads, which no other rank has. Throws InputError where
/// there are too few.
std::vector<Processors> cores_of_ranks(const RunConfig& config, int threads);

/// Ranks as threads of this process with threads_each() kernel threads. Rank r runs on
/// processors[r]; where there are none, wherever the system puts it.
///
/// A rank that waits for another one longer than `deadline` seconds ends the run. Each may allocate
/// `memory` bytes; where there is no such number, all together what the machine has.
std::unique_ptr<Cluster> make_cpu_cluster(const RunConfig& config, int threads,
                                          double deadline = LocalGroup::default_deadline,
                                          std::vector<Processors> processors = {},
                                          std::optional<int64_t> memory = {});

/// Reason why so many processes are not the ranks of this configuration; empty where they are.
std::string why_not_so_many(const RunConfig& config, int processes);

/// Makes this process's rank of a run whose ranks are processes, with `threads` kernel threads and
/// `memory` bytes. An exception of one rank is thrown by all processes and ends the run. Throws
/// InputError where there are not as many processes as ranks.
std::unique_ptr<Cluster> make_cpu_process_cluster(const RunConfig& config, World& world,
                                                  const MakeProcessGroup& groups, int threads,
                                                  int64_t memory);

/// Reason why `ranks` ranks of this configuration cannot run on so many GPUs, as this build is: too
/// few GPUs, no NCCL for several ranks, no fused attention of the type. Empty where they can.
std::string why_not_on_gpus(const RunConfig& config, int ranks, int gpus);

/// Bytes of a GPU that NCCL takes, at most, for all groups of the rank that is in the most
/// (engine/comm/nccl/nccl.h); 0 for one rank.
int64_t memory_of_communicators(const RunConfig& config);

/// Ranks as threads of this process, a GPU each, or by turns where ranks_may_share_gpus(), of those
/// of gpus() (kernels/cuda/gpus.h) from `first` on. A collective or message that takes longer than
/// `deadline` seconds ends the run. Rank r runs on processors[r]; where there are none, wherever
/// the system puts it. Throws InputError for what why_not_on_gpus() says.
///
/// Threads of a process share its queue of launches and CUDA's locks. So each rank waits before it
/// is further ahead of its GPU than its share of the queue.
std::unique_ptr<Cluster> make_cuda_cluster(const RunConfig& config,
                                           double deadline = LocalGroup::default_deadline,
                                           int first = 0, std::vector<Processors> processors = {});

/// Carrier of tensors between the GPUs of several processes: NCCL, or MPI between their hosts'
/// memory.
enum class Transport : uint8_t { nccl, host };
constexpr Names names_of(Transport) { return {"nccl", "host"}; }

/// Makes this process's rank of a run whose ranks are processes, on GPU `gpu` of gpus(). Tensors
/// that go through the host's memory are carried by `groups`. Throws InputError where NCCL is asked
/// for and the build has none.
std::unique_ptr<Cluster> make_cuda_process_cluster(const RunConfig& config, World& world,
                                                   const MakeProcessGroup& groups, int gpu,
                                                   Transport transport);

/// Virtual pipeline: one rank for each stage, which stands for the t · c · w ranks of that stage on
/// a machine (kernels/virtual/machine.h), as a lone rank does. Stages are tasks of one thread
/// (engine/comm/tasks.h), and the run ends when all wait for each other.
std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine,
                                              double deadline = LocalGroup::default_deadline);

/// Lone rank on a real device, whose peers are absent (engine/comm/modelled.h). Memory, shapes and
/// computation are its own. Collectives take as long as on `machine`, and give it its own data in
/// place of its peers': losses and gradients mean nothing. The rank is the first of each group, and
/// of a ring of keys and values the last, which computes most
/// (engine/model/attention/ring_core.cpp).
///
/// A pipeline's other stages are absent too: the rank is one of `stage`, messages and sums between
/// stages take no time, and hidden states that it receives are random. Throws InputError for a
/// pipeline of which no stage is named.
std::unique_ptr<Cluster> make_lone_cpu_cluster(const RunConfig& config, int threads,
                                               const Machine& machine,
                                               std::optional<int> stage = {});
std::unique_ptr<Cluster> make_lone_cuda_cluster(const RunConfig& config, const Machine& machine,
                                                std::optional<int> stage = {});
/// Lone rank on a virtual device of the machine itself.
std::unique_ptr<Cluster> make_lone_virtual_cluster(const RunConfig& config, const Machine& machine,
                                                   std::optional<int> stage = {});

}  // namespace frugal::engine
