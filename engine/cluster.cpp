#include "engine/cluster.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "engine/comm/local.h"
#include "kernels/cpu/device.h"
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

class CpuCluster final : public Cluster {
 public:
  CpuCluster(const RunConfig& config, int threads) : group_(config.tensor_parallel) {
    const int ranks = config.tensor_parallel;
    for (int r = 0; r < ranks; ++r) {
      devices_.push_back(std::make_unique<CpuDevice>(std::max(1, threads / ranks)));
      ranks_.push_back(std::make_unique<Rank>(*devices_.back(), group_.communicator(r), config));
    }
  }

  void run(const std::function<void(Rank&)>& body) override {
    group_.reset();
    std::vector<Outcome> outcomes(ranks_.size());
    if (ranks_.size() == 1) {
      outcomes[0] = run_rank(*ranks_[0], body);
    } else {
      std::vector<std::jthread> threads;
      for (size_t r = 0; r < ranks_.size(); ++r)
        threads.emplace_back([&, r] { outcomes[r] = run_rank(*ranks_[r], body); });
      threads.clear();  // joins
    }
    rethrow_first(outcomes);
  }
  int local_ranks() const override { return static_cast<int>(ranks_.size()); }
  Rank& rank(int index) override { return *ranks_.at(static_cast<size_t>(index)); }

 private:
  LocalGroup group_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace

std::unique_ptr<Cluster> make_cpu_cluster(const RunConfig& config, int threads) {
  config.validate();
  return std::make_unique<CpuCluster>(config, threads);
}

}  // namespace frugal
