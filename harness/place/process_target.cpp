#include "harness/place/process_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "engine/rank_grid.h"
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

}  // namespace

ProcessTarget::ProcessTarget(const TargetOptions& options, Processes& processes)
    : CpuTarget(options), processes_(processes) {
  if (options.pinning != Pinning::none)
    throw InputError(
        "--pin: processes run where their launcher binds them; leave it out, and give mpirun "
        "--bind-to core, or srun --cpu-bind=cores");
  processes_.world().set_deadline(deadline());
}

std::string ProcessTarget::device(const RunConfig& /*config*/) const {
  return fmt::format("{}; {} processes on {} host{}", device(), processes_.size(),
                     processes_.hosts(), processes_.hosts() == 1 ? "" : "s");
}

double ProcessTarget::devices(const RunConfig& /*config*/) const { return processes_.hosts(); }

double ProcessTarget::together(double rate, const RunConfig& /*config*/) const {
  const std::string mine(reinterpret_cast<const char*>(&rate), sizeof rate);
  double sum = 0;
  for (const std::string& each : processes_.world().exchange(mine)) {
    double of_one = 0;
    std::memcpy(&of_one, each.data(), sizeof of_one);
    sum += of_one;
  }
  return sum;
}

std::unique_ptr<Cluster> ProcessTarget::cluster(const RunConfig& config) const {
  return cluster_with(config, memory_of_rank(config));
}

std::unique_ptr<Cluster> ProcessTarget::cluster_with(const RunConfig& config,
                                                     int64_t memory) const {
  const int threads = threads_of_rank(*CpuTarget::threads(), processes_);
  // What has one rank is what each process does for itself.
  if (config.ranks() == 1) return make_cpu_cluster(config, threads, deadline(), {}, memory);
  return make_cpu_process_cluster(config, processes_.world(), processes_.groups(), threads, memory);
}

int64_t ProcessTarget::memory_of_rank(const RunConfig& /*config*/) const {
  return machine_memory()->capacity() / processes_.on_this_host();
}

void ProcessTarget::check(const RunConfig& config) const {
  CpuTarget::check(config);
  if (config.ranks() != processes_.size())
    throw InputError(fmt::format(
        "the configuration has {} ranks (tensor-parallel {} x context-parallel {} x "
        "pipeline-parallel {} x data-parallel {}) and {} processes were started; start {}, or "
        "choose sizes whose product is {}",
        config.ranks(), config.tensor_parallel, config.context_parallel, config.pipeline_parallel,
        config.data_parallel, processes_.size(), config.ranks(), processes_.size()));
  check_placement(config);
}

/// Ranks that share layers communicate in every layer: they belong on one host, where as many fit.
void ProcessTarget::check_placement(const RunConfig& config) const {
  const std::vector<RankPlaceHere>& places = processes_.places();
  const int t = config.tensor_parallel;
  std::map<std::string, int> on_host;
  for (const RankPlaceHere& place : places) ++on_host[place.host];
  const bool can_be = std::all_of(on_host.begin(), on_host.end(),
                                  [&](const auto& host) { return host.second % t == 0; });
  if (!can_be) return;  // nothing that a launcher could do better
  for (int first = 0; first < processes_.size(); first += t)
    for (int rank = first; rank < first + t; ++rank)
      if (const auto& host = places[static_cast<size_t>(rank)].host;
          host != places[static_cast<size_t>(first)].host)
        throw InputError(fmt::format(
            "ranks {} to {} share every layer (tensor-parallel {}), and rank {} is on {} but rank "
            "{} on {}; start {}, which fills the hosts one after another",
            first, first + t - 1, t, first, places[static_cast<size_t>(first)].host, rank, host,
            to_fill_hosts(on_host.begin()->second)));
}

std::map<std::string, std::string> ProcessTarget::options(DType type) const {
  std::map<std::string, std::string> options = CpuTarget::options(type);
  options[ranks_option] = name_of(RanksAs::processes);
  if (processes_.hosts() > 1) options["hosts"] = std::to_string(processes_.hosts());
  return options;
}

}  // namespace frugal::harness
