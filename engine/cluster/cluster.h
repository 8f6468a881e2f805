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
  /// Whether all ranks exist; otherwise one stands for all, and losses and gradients mean
  /// nothing.
  virtual bool whole() const { return true; }
  virtual Rank& rank(int index) = 0;
  /// Number of ranks of all processes.
  virtual int ranks() const { return local_ranks(); }
  /// Whether ranks note how long they wait for each other (Rank::activity).
  virtual bool notes_waiting() const { return false; }
  /// The number, among all, of the first that is here.
  virtual int first_rank() const { return 0; }
  /// What each process has, in the order of their ranks. All call it, outside of run().
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

/// Why so many processes are not the ranks of this configuration; empty where they are.
std::string why_not_so_many(const RunConfig& config, int processes);

/// One rank of a run whose ranks are processes, this one's; it has so many kernel threads and may
/// allocate so many bytes. What it throws goes to all processes, and all of them throw it: the run
/// is at its end then. Throws InputError where there are not as many processes as ranks.
std::unique_ptr<Cluster> make_cpu_process_cluster(const RunConfig& config, World& world,
                                                  const MakeProcessGroup& groups, int threads,
                                                  int64_t memory);

/// Why `ranks` ranks of this configuration cannot run on so many GPUs, as this build is: too few
/// GPUs, no NCCL for several ranks, no fused attention of the type. Empty where they can.
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

/// Ranks as threads of this process that share one GPU, with tensors between them through the
/// host's memory: what they compute is what ranks with a GPU each compute, and what they take says
/// nothing about those.
std::unique_ptr<Cluster> make_shared_cuda_cluster(const RunConfig& config,
                                                  double deadline = LocalGroup::default_deadline,
                                                  int gpu = 0);

/// What carries tensors between the GPUs of several processes: NCCL, or MPI between their hosts'
/// memory.
enum class Transport : uint8_t { nccl, host };
constexpr Names names_of(Transport) { return {"nccl", "host"}; }

/// The same where ranks are processes: this one's, on GPU `gpu` of gpus(). `groups` are used where
/// tensors go through the host's memory. Throws InputError where the build has no NCCL and that is
/// asked for.
std::unique_ptr<Cluster> make_cuda_process_cluster(const RunConfig& config, World& world,
                                                   const MakeProcessGroup& groups, int gpu,
                                                   Transport transport);

/// One rank for each stage, which stands for its t · c · w ones of a machine
/// (kernels/virtual/machine.h), as a lone rank does. Stages are tasks of one thread
/// (engine/comm/tasks.h), and the run ends when all wait for each other.
std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine,
                                              double deadline = LocalGroup::default_deadline);

/// One rank of all of a stage on a real device, the others absent (engine/comm/modelled.h): memory,
/// shapes and computation are one rank's own; collectives take the time that they would take on
/// `machine`, and what the absent ranks would have sent is this rank's own data. So losses and
/// gradients mean nothing. It is the first of each group; of those that pass keys and values around
/// a ring the last, which computes most (engine/model/attention/ring_core.h).
///
/// Of a pipeline, the rank is one of `stage`, and all other stages are absent too: messages and
/// sums between stages take no time, and hidden states that would be received are random. Throws
/// InputError for a pipeline of which no stage is named.
std::unique_ptr<Cluster> make_lone_cpu_cluster(const RunConfig& config, int threads,
                                               const Machine& machine,
                                               std::optional<int> stage = {});
std::unique_ptr<Cluster> make_lone_cuda_cluster(const RunConfig& config, const Machine& machine,
                                                std::optional<int> stage = {});
/// Makes it of one device of the machine itself.
std::unique_ptr<Cluster> make_lone_virtual_cluster(const RunConfig& config, const Machine& machine,
                                                   std::optional<int> stage = {});

}  // namespace frugal::engine
