#pragma once
#include <exception>
#include <memory>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cluster/rank_grid.h"
#include "engine/comm/activity.h"
#include "kernels/cpu/cores.h"

namespace frugal::engine {

/// Ranks as threads of this process, or tasks of one, each with a device of its own.
class ThreadedCluster final : public Cluster {
 public:
  /// Device r is rank r's of the topology; the groups may use the devices, and go before them.
  /// Where they are observed, ranks note what they do (Rank::activity), and errors say whose they
  /// are; their memory is the host's.
  ThreadedCluster(const RunConfig& config, const Topology& topology,
                  std::vector<std::unique_ptr<Device>> devices, const RankGrid::MakeGroup& make,
                  bool observed = false);

  /// Keeps rank r's threads on processors[r].
  void pin(std::vector<Processors> processors) { processors_ = std::move(processors); }

  /// Waits no longer for ranks than so many seconds after others have ended (on_stuck_rank()).
  void give_up_after(double seconds) { patience_ = seconds; }

  /// Makes ranks tasks of the thread that runs them.
  void choose_tasks() { tasks_ = true; }

  ~ThreadedCluster() override;
  void run(const std::function<void(Rank&)>& body) override;
  int local_ranks() const override { return static_cast<int>(ranks_.size()); }
  bool whole() const override;
  bool notes_waiting() const override { return observed_; }
  Rank& rank(int index) override { return *ranks_.at(static_cast<size_t>(index)); }

 private:
  /// End of a rank.
  struct Outcome;
  /// Ranks of a run that have ended, and with what.
  struct Ended;
  Outcome run_rank(size_t r, const std::function<void(Rank&)>& body);
  void run_threads(const std::function<void(size_t)>& run);
  Failure why_stuck() const;
  /// The error that a rank ends with.
  std::exception_ptr explained_error(const std::exception_ptr& error, const Failure& failure) const;

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Activity> activities_;  ///< of each rank
  const bool observed_;
  RankGrid grid_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool tasks_ = false;
  double patience_ = 0;  ///< 0: any
  std::unique_ptr<Ended> ended_;
  std::vector<Processors> processors_;  // of each rank; none where ranks run anywhere
};

/// A group of these ranks, which read each other's memory; none waits longer than `deadline`
/// seconds.
std::unique_ptr<Group> group_of_threads(const GroupSpec& group, const std::vector<int>& ranks,
                                        double deadline);

}  // namespace frugal::engine
