#pragma once
#include <exception>
#include <memory>

#include "engine/cluster/cluster.h"
#include "engine/cluster/rank_grid.h"
#include "engine/comm/activity.h"

namespace frugal::engine {

/// Cluster of a run whose ranks are processes, of which this process is one.
class ProcessCluster final : public Cluster {
 public:
  /// Owner of groups: the host's note what they wait for; the device's end when all
  /// processes have done what they do with them.
  enum class Groups : uint8_t { of_the_host, of_the_device };

  /// All processes make it together. The groups may use the device, and go before it. Throws
  /// InputError where there are not as many processes as ranks.
  ProcessCluster(const RunConfig& config, World& world, std::unique_ptr<Device> device,
                 const RankGrid::MakeGroup& make, Groups groups);
  ~ProcessCluster() override;

  void run(const std::function<void(Rank&)>& body) override;
  int local_ranks() const override { return 1; }
  Rank& rank(int /*index*/) override { return rank_; }
  int ranks() const override { return world_.size(); }
  bool notes_waiting() const override { return groups_ == Groups::of_the_host; }
  int first_rank() const override { return world_.rank(); }
  std::vector<std::string> exchange(const std::string& mine) override {
    return world_.exchange(mine);
  }
  std::vector<std::string> gather(const std::string& mine) override { return world_.gather(mine); }

 private:
  /// Ends the run of all processes: returns why it has ended.
  Failure fail(const std::exception_ptr& error);

  World& world_;
  const Groups groups_;
  const int exceptions_ = std::uncaught_exceptions();
  std::unique_ptr<Device> device_;
  RankGrid grid_;
  Rank rank_;
};

/// A group that notes what this process's rank does. What it communicates is the host's memory.
std::unique_ptr<Group> observed_by(World& world, std::unique_ptr<Group> group,
                                   const GroupSpec& spec, const std::vector<int>& ranks);

}  // namespace frugal::engine
