#include <fmt/format.h>

#include "engine/cluster.h"
#include "engine/comm/observed.h"
#include "engine/rank_grid.h"
#include "kernels/cpu/device.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// One rank, this process's, of a run whose others are processes of their own.
class ProcessCluster final : public Cluster {
 public:
  ProcessCluster(const RunConfig& config, World& world, const MakeProcessGroup& groups,
                 std::unique_ptr<Device> device)
      : world_(ready(world)),
        device_(std::move(device)),
        grid_(layout_of(config), {world.rank()},
              [&](GroupUse use, const std::vector<int>& ranks) {
                return observed(groups(ranks), use, ranks);
              }),
        rank_(0, *device_, grid_.groups(world.rank()), config, world.activity()) {}

  void run(const std::function<void(Rank&)>& body) override {
    world_.check();
    try {
      body(rank_);
    } catch (...) {
      raise(world_.fail(failure_of(std::current_exception(), world_.rank())));
    }
  }
  int local_ranks() const override { return 1; }
  Rank& rank(int /*index*/) override { return rank_; }
  int ranks() const override { return world_.size(); }
  bool notes_waiting() const override { return true; }
  int first_rank() const override { return world_.rank(); }
  std::vector<std::string> exchange(const std::string& mine) override {
    return world_.exchange(mine);
  }
  std::vector<std::string> gather(const std::string& mine) override { return world_.gather(mine); }

 private:
  /// MPI divides the world without a deadline: nobody begins before all are there.
  static World& ready(World& world) {
    world.exchange("");
    return world;
  }
  std::unique_ptr<Group> observed(std::unique_ptr<Group> group, GroupUse use,
                                  const std::vector<int>& ranks) {
    std::vector<Activity*> members;
    for (const int rank : ranks)
      members.push_back(rank == world_.rank() ? &world_.activity() : nullptr);
    return std::make_unique<ObservedGroup>(std::move(group), members, name_of(use));
  }

  World& world_;
  std::unique_ptr<Device> device_;
  RankGrid grid_;
  Rank rank_;
};

}  // namespace

std::unique_ptr<Cluster> make_cpu_process_cluster(const RunConfig& config, World& world,
                                                  const MakeProcessGroup& groups, int threads,
                                                  int64_t memory) {
  config.validate();
  if (config.ranks() != world.size())
    throw InputError(fmt::format(
        "the configuration has {} ranks (tensor-parallel {} x context-parallel {} x "
        "pipeline-parallel {} x data-parallel {}) and {} processes were started; start as many as "
        "there are ranks",
        config.ranks(), config.tensor_parallel, config.context_parallel, config.pipeline_parallel,
        config.data_parallel, world.size()));
  return std::make_unique<ProcessCluster>(config, world, groups,
                                          std::make_unique<CpuDevice>(threads, memory));
}

}  // namespace frugal::engine
