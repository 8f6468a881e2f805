#include "engine/cluster_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// What a rank ended with.
struct Outcome {
  std::exception_ptr error;
  bool peer_lost = false;  ///< another rank's error is the cause
};

/// Whatever ends a rank ends all its groups, so that the ranks of other groups learn it from those
/// that wait for both.
Outcome run_rank(Rank& rank, RankGrid& grid, const std::function<void(Rank&)>& body) {
  try {
    body(rank);
    return {};
  } catch (const PeerLost& e) {
    grid.abort(rank.index, e.what());
    return {std::current_exception(), true};
  } catch (const std::exception& e) {
    grid.abort(rank.index, e.what());
    return {std::current_exception(), false};
  } catch (...) {
    grid.abort(rank.index, "a rank failed");
    return {std::current_exception(), false};
  }
}

/// The cause is thrown before its consequences.
void rethrow_first(const std::vector<Outcome>& outcomes) {
  for (const bool peer_lost : {false, true}) {
    for (const Outcome& outcome : outcomes)
      if (outcome.error && outcome.peer_lost == peer_lost) std::rethrow_exception(outcome.error);
  }
}

}  // namespace

ThreadedCluster::ThreadedCluster(const RunConfig& config, const Layout& layout,
                                 std::vector<std::unique_ptr<Device>> devices,
                                 const RankGrid::MakeGroup& make)
    : devices_(std::move(devices)), grid_(layout, make) {
  for (int r = 0; r < layout.ranks(); ++r)
    ranks_.push_back(
        std::make_unique<Rank>(r, *devices_.at(static_cast<size_t>(r)), grid_.groups(r), config));
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
}

void ThreadedCluster::run(const std::function<void(Rank&)>& body) {
  grid_.reset();
  std::vector<Outcome> outcomes(ranks_.size());
  const auto run = [&](size_t r) {
    outcomes[r] = run_rank(*ranks_[r], grid_, [&](Rank& rank) {
      if (!processors_.empty()) pin_this_thread(processors_[r]);
      body(rank);
    });
  };
  if (ranks_.size() == 1 && processors_.empty())
    run(0);
  else if (tasks_)
    tasks::run(ranks_.size(), run);
  else
    run_threads(run);
  rethrow_first(outcomes);
}

}  // namespace frugal::engine
