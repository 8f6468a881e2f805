#include "engine/cluster/processes.h"

#include <fmt/format.h>

#include "engine/comm/decorated.h"
#include "kernels/cpu/device.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// MPI divides the world without a deadline: nobody begins before all are there.
World& ready(World& world, const RunConfig& config) {
  config.validate();
  if (const std::string why = why_not_so_many(config, world.size()); !why.empty())
    throw InputError(why);
  world.exchange("");
  return world;
}

}  // namespace

std::string why_not_so_many(const RunConfig& config, int processes) {
  if (config.ranks() == processes) return "";
  return fmt::format(
      "the configuration has {} ranks (tensor-parallel {} x context-parallel {} x "
      "pipeline-parallel {} x data-parallel {}) and {} processes were started; start {}, or choose "
      "sizes whose product is {}",
      config.ranks(), config.tensor_parallel, config.context_parallel, config.pipeline_parallel,
      config.data_parallel, processes, config.ranks(), processes);
}

ProcessCluster::ProcessCluster(const RunConfig& config, World& world,
                               std::unique_ptr<Device> device, const RankGrid::MakeGroup& make,
                               Groups groups)
    : world_(ready(world, config)),
      groups_(groups),
      device_(std::move(device)),
      grid_(topology_of(config), make, world.rank()),
      rank_(0, *device_, grid_.communicators(world.rank()), config, world.activity()) {
  device_->before_operations([&world] { world.go_on(); });
}

/// A device may have done all that it has to while others still wait for what it sends, or for its
/// end: so it ends when all have.
ProcessCluster::~ProcessCluster() {
  if (groups_ != Groups::of_the_device || std::uncaught_exceptions() > exceptions_) return;
  try {
    device_->synchronize();
    world_.exchange("");
  } catch (...) {
    (void)fail(std::current_exception());
  }
}

Failure ProcessCluster::fail(const std::exception_ptr& error) {
  Failure failure = world_.fail(failure_of(error, world_.rank()));
  grid_.abort(world_.rank(), failure.reason);
  return failure;
}

void ProcessCluster::run(const std::function<void(Rank&)>& body) {
  world_.check();
  try {
    body(rank_);
  } catch (...) {
    raise(fail(std::current_exception()));
  }
}

std::unique_ptr<Group> observed_by(World& world, std::unique_ptr<Group> group,
                                   const GroupSpec& spec, const std::vector<int>& ranks) {
  std::vector<Activity*> members;
  for (const int rank : ranks)
    members.push_back(rank == world.rank() ? &world.activity() : nullptr);
  return std::make_unique<ObservedGroup>(std::move(group), members, spec.name);
}

std::unique_ptr<Cluster> make_cpu_process_cluster(const RunConfig& config, World& world,
                                                  const MakeProcessGroup& groups, int threads,
                                                  int64_t memory) {
  return std::make_unique<ProcessCluster>(
      config, world, std::make_unique<CpuDevice>(threads, memory),
      [&](const GroupSpec& group, const std::vector<int>& ranks) {
        return observed_by(world, groups(ranks), group, ranks);
      },
      ProcessCluster::Groups::of_the_host);
}

}  // namespace frugal::engine
