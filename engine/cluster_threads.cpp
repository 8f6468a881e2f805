#include "engine/cluster_threads.h"

#include <exception>
#include <thread>

#include "kernels/support/error.h"

namespace frugal {
namespace {

/// What a rank ended with.
struct Outcome {
  std::exception_ptr error;
  bool peer_lost = false;  ///< another rank's error is the cause
};

Outcome run_rank(Rank& rank, const std::function<void(Rank&)>& body) {
  try {
    body(rank);
    return {};
  } catch (const PeerLost&) {
    return {std::current_exception(), true};
  } catch (const std::exception& e) {
    rank.tensor_group.abort(e.what());
    return {std::current_exception(), false};
  } catch (...) {
    rank.tensor_group.abort("a rank failed");
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

ThreadedCluster::ThreadedCluster(const RunConfig& config,
                                 std::vector<std::unique_ptr<Device>> devices,
                                 std::unique_ptr<Group> group)
    : devices_(std::move(devices)), group_(std::move(group)) {
  for (size_t r = 0; r < devices_.size(); ++r)
    ranks_.push_back(
        std::make_unique<Rank>(*devices_[r], group_->communicator(static_cast<int>(r)), config));
}

void ThreadedCluster::run(const std::function<void(Rank&)>& body) {
  group_->reset();
  std::vector<Outcome> outcomes(ranks_.size());
  if (ranks_.size() == 1 && processors_.empty()) {
    outcomes[0] = run_rank(*ranks_[0], body);
  } else {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < ranks_.size(); ++r)
      threads.emplace_back([&, r] {
        outcomes[r] = run_rank(*ranks_[r], [&](Rank& rank) {
          if (!processors_.empty()) pin_this_thread(processors_[r]);
          body(rank);
        });
      });
    threads.clear();  // joins
  }
  rethrow_first(outcomes);
}

}  // namespace frugal
