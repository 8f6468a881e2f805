#include "harness/place/process_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "engine/cluster/rank_grid.h"
#include "engine/comm/nccl/nccl.h"
#include "harness/place/gpu_state.h"
#include "kernels/cpu/memory_budget.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// Of --threads, which are those of a host, each rank's.
int threads_of_rank(int threads, const Processes& processes) {
  return std::max(1, threads / processes.on_this_host());
}

/// What has a launcher fill the hosts one after another.
std::string to_fill_hosts(int ranks_of_host) {
  if (Processes::started_by_srun())
    return fmt::format("srun with --ntasks-per-node={} --distribution=block", ranks_of_host);
  return fmt::format("mpirun with --map-by ppr:{}:node", ranks_of_host);
}

/// Ranks that share layers communicate in every layer: they belong on one host, where as many fit.
void check_placement(const Processes& processes, const RunConfig& config) {
  const std::vector<RankPlaceHere>& places = processes.places();
  const int t = config.tensor_parallel;
  std::map<std::string, int> on_host;
  for (const RankPlaceHere& place : places) ++on_host[place.host];
  const bool can_be = std::all_of(on_host.begin(), on_host.end(),
                                  [&](const auto& host) { return host.second % t == 0; });
  if (!can_be) return;  // nothing that a launcher could do better
  for (int first = 0; first < processes.size(); first += t)
    for (int rank = first; rank < first + t; ++rank)
      if (const auto& host = places[static_cast<size_t>(rank)].host;
          host != places[static_cast<size_t>(first)].host)
        throw InputError(fmt::format(
            "ranks {} to {} share every layer (tensor-parallel {}), and rank {} is on {} but rank "
            "{} on {}; start {}, which fills the hosts one after another",
            first, first + t - 1, t, first, places[static_cast<size_t>(first)].host, rank, host,
            to_fill_hosts(on_host.begin()->second)));
}

/// Throws what is wrong with the GPUs in all processes, before anything of theirs is used.
Processes& with_gpus(Processes& processes) {
  processes.gpus();
  return processes;
}

}  // namespace

void check_ranks_of(const Processes& processes, const RunConfig& config) {
  if (const std::string why = why_not_so_many(config, processes.size()); !why.empty())
    throw InputError(why);
  check_placement(processes, config);
}

double sum_over(Processes& processes, double mine) {
  const std::string own(reinterpret_cast<const char*>(&mine), sizeof mine);
  double sum = 0;
  for (const std::string& each : processes.world().exchange(own)) {
    double of_one = 0;
    std::memcpy(&of_one, each.data(), sizeof of_one);
    sum += of_one;
  }
  return sum;
}

void need_mpi(const Processes& processes, const std::string& what) {
  if (processes.by_mpi()) return;
  throw InputError(fmt::format(
      "{} has MPI carry what is in the hosts' memory, and torchrun has started these {} processes; "
      "start them with mpirun -n {} frugal ..., or give --on cuda where there is NCCL",
      what, processes.size(), processes.size()));
}

std::string in_words(const Processes& processes) {
  return fmt::format("; {} processes on {} host{}", processes.size(), processes.hosts(),
                     processes.hosts() == 1 ? "" : "s");
}

ProcessTarget::ProcessTarget(const TargetOptions& options, Processes& processes)
    : OfProcesses(options, processes) {
  need_mpi(processes, "--on cpu");
  if (options.pinning != Pinning::none)
    throw InputError(
        "--pin: processes run where their launcher binds them; leave it out, and give mpirun "
        "--bind-to core, or srun --cpu-bind=cores");
}

double ProcessTarget::devices(const RunConfig& /*config*/) const { return processes().hosts(); }

std::unique_ptr<Cluster> ProcessTarget::cluster(const RunConfig& config) const {
  return cluster_with(config, memory_of_rank(config));
}

std::unique_ptr<Cluster> ProcessTarget::cluster_with(const RunConfig& config,
                                                     int64_t memory) const {
  const int threads = threads_of_rank(*CpuTarget::threads(), processes());
  // What has one rank is what each process does for itself.
  if (config.ranks() == 1) return make_cpu_cluster(config, threads, deadline(), {}, memory);
  return make_cpu_process_cluster(config, processes().world(), processes().groups(), threads,
                                  memory);
}

int64_t ProcessTarget::memory_of_rank(const RunConfig& /*config*/) const {
  return machine_memory()->capacity() / processes().on_this_host();
}

GpuProcessTarget::GpuProcessTarget(const TargetOptions& options, Processes& processes)
    : OfProcesses(options, with_gpus(processes)), transport_(transport_of(options, processes)) {
  if (transport_ == Transport::nccl && processes.ranks_on_a_gpu() > 1)
    if (const std::string why = why_no_shared_gpus(); !why.empty()) throw InputError(why);
  if (options.pinning == Pinning::cores)
    pin_this_thread(processors_near_gpus(first_gpu(), 1).front());
}

Transport GpuProcessTarget::transport_of(const TargetOptions& options, const Processes& processes) {
  const bool nccl = why_no_nccl().empty();
  const Transport chosen = options.transport.value_or(nccl ? Transport::nccl : Transport::host);
  if (chosen == Transport::nccl && !nccl)
    throw InputError(
        "--transport is nccl, and this build has no NCCL; install it (packages libnccl2 and "
        "libnccl-dev) and build again, or leave --transport out");
  if (chosen == Transport::host)
    need_mpi(processes, options.transport ? "--transport host" : "a build without NCCL");
  return chosen;
}

int GpuProcessTarget::first_gpu() const {
  return processes().gpus()[static_cast<size_t>(processes().rank())].index;
}

std::unique_ptr<Cluster> GpuProcessTarget::cluster(const RunConfig& config) const {
  if (config.ranks() == 1) return CudaTarget::cluster(config);
  return make_cuda_process_cluster(config, processes().world(), processes().groups(), first_gpu(),
                                   transport_);
}

std::map<std::string, std::string> GpuProcessTarget::options(DType type) const {
  std::map<std::string, std::string> options = OfProcesses::options(type);
  options[transport_option] = name_of(transport_);
  if (ranks_may_share_gpus()) options[shared_gpus] = "allowed";
  return options;
}

}  // namespace frugal::harness
