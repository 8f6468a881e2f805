#include "engine/cluster/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/comm/decorated.h"
#include "engine/comm/failure.h"
#include "kernels/support/error.h"

namespace frugal::engine {

struct ThreadedCluster::Outcome {
  std::exception_ptr error;
  bool peer_lost = false;  ///< another rank's error is the cause
};

namespace {

/// Groups of `make` whose members note what they do.
RankGrid::MakeGroup observing(const RankGrid::MakeGroup& make, std::vector<Activity>& activities) {
  return [make, &activities](const GroupSpec& group, const std::vector<int>& ranks) {
    std::vector<Activity*> members;
    for (const int rank : ranks) members.push_back(&activities.at(static_cast<size_t>(rank)));
    return std::make_unique<ObservedGroup>(make(group, ranks), members, group.name);
  };
}

}  // namespace

std::function<void(const Failure&)>& on_stuck_rank() {
  static std::function<void(const Failure&)> handler;
  return handler;
}

struct ThreadedCluster::Ended {
  explicit Ended(size_t count) : outcomes(count) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Outcome>> outcomes;  ///< of the ranks that have ended
  size_t ranks = 0;

  void add(size_t rank, const Outcome& outcome) {
    const std::lock_guard lock(mutex);
    outcomes[rank] = outcome;
    ++ranks;
    changed.notify_all();
  }
  /// Waits until all have ended. False where none has for so many seconds after another.
  bool wait(double seconds) {
    std::unique_lock lock(mutex);
    for (size_t before = 0; before < outcomes.size(); before = ranks) {
      const auto one_more = [&] { return ranks > before; };
      if (before == 0)
        changed.wait(lock, one_more);
      else if (!changed.wait_for(lock, std::chrono::duration<double>(seconds), one_more))
        return false;
    }
    return true;
  }
  /// Error that caused the others, or else a consequence of it. Null where nothing failed.
  std::exception_ptr first_cause() const {
    for (const bool peer_lost : {false, true})
      for (const auto& outcome : outcomes)
        if (outcome && outcome->error && outcome->peer_lost == peer_lost) return outcome->error;
    return nullptr;
  }
};

ThreadedCluster::~ThreadedCluster() = default;

ThreadedCluster::ThreadedCluster(const RunConfig& config, const Topology& topology,
                                 std::vector<std::unique_ptr<Device>> devices,
                                 const RankGrid::MakeGroup& make, bool observed)
    : devices_(std::move(devices)),
      activities_(static_cast<size_t>(topology.ranks())),
      observed_(observed && topology.ranks() > 1),
      grid_(topology, observed_ ? observing(make, activities_) : make) {
  for (int r = 0; r < topology.ranks(); ++r)
    ranks_.push_back(std::make_unique<Rank>(r, *devices_.at(static_cast<size_t>(r)),
                                            grid_.communicators(r), config,
                                            activities_[static_cast<size_t>(r)]));
}

std::exception_ptr ThreadedCluster::explained_error(const std::exception_ptr& error,
                                                    const Failure& failure) const {
  if (!observed_ || failure.kind == Failure::Kind::peer_lost) return error;
  const double now = activity_clock();
  std::vector<Heard> heard;
  for (const Activity& activity : activities_)
    heard.push_back({.state = activity.state(), .at = now});
  try {
    raise(explained(failure, heard, now));
  } catch (...) {
    return std::current_exception();
  }
}

/// An error ends all groups of the rank, so that the ranks of other groups learn it from those that
/// wait for both.
ThreadedCluster::Outcome ThreadedCluster::run_rank(size_t r,
                                                   const std::function<void(Rank&)>& body) {
  try {
    if (!processors_.empty()) pin_this_thread(processors_[r]);
    body(*ranks_[r]);
    return {};
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    const Failure failure = failure_of(error, static_cast<int>(r));
    const std::exception_ptr with_what_others_do = explained_error(error, failure);
    grid_.abort(static_cast<int>(r), failure.reason);
    return {with_what_others_do, failure.kind == Failure::Kind::peer_lost};
  }
}

bool ThreadedCluster::whole() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->whole(); });
}

void ThreadedCluster::run_threads(const std::function<void(size_t)>& run) {
  std::vector<std::jthread> threads;
  try {
    for (size_t r = 0; r < ranks_.size(); ++r) threads.emplace_back(run, r);
  } catch (const std::system_error& e) {
    // Those that run would wait for the others until their deadline.
    for (size_t r = threads.size(); r < ranks_.size(); ++r)
      grid_.abort(static_cast<int>(r), "its thread could not be started");
    const size_t started = threads.size();
    threads.clear();  // joins
    throw InputError(
        fmt::format("{} ranks are threads here, of which {} could be started ({}); choose fewer, "
                    "or raise the limit of the system",
                    ranks_.size(), started, e.code().message()));
  }
  if (patience_ == 0 || !on_stuck_rank()) return;
  if (!ended_->wait(patience_)) on_stuck_rank()(why_stuck());
}

Failure ThreadedCluster::why_stuck() const {
  const std::lock_guard lock(ended_->mutex);
  if (const auto cause = ended_->first_cause()) return failure_of(cause, -1);
  const double now = activity_clock();
  std::vector<Heard> heard;
  for (size_t r = 0; r < activities_.size(); ++r)
    heard.push_back({.state = activities_[r].state(),
                     .at = now,
                     .of = ended_->outcomes[r] ? Heard::Of::ended : Heard::Of::running});
  return explained({.kind = Failure::Kind::deadline,
                    .rank = -1,
                    .reason = fmt::format("others ended {} s ago", patience_)},
                   heard, now);
}

void ThreadedCluster::run(const std::function<void(Rank&)>& body) {
  grid_.reset();
  for (Activity& activity : activities_) activity.reset();
  ended_ = std::make_unique<Ended>(ranks_.size());
  const auto run = [&](size_t r) { ended_->add(r, run_rank(r, body)); };
  if (ranks_.size() == 1 && processors_.empty())
    run(0);
  else if (tasks_)
    tasks::run(ranks_.size(), run);
  else
    run_threads(run);
  if (const auto cause = ended_->first_cause()) std::rethrow_exception(cause);
}

}  // namespace frugal::engine
