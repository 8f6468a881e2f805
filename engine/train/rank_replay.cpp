#include "engine/train/rank_replay.h"

#include <utility>

namespace frugal::engine {
namespace {

/// While this lives, what a rank does is noted.
class Noting {
 public:
  Noting(Rank& rank, RankReplay::Stretch& stretch)
      : rank_(rank),
        stretch_(stretch),
        memory_(rank.ledger.exchange({})),
        flops_(std::exchange(rank.flops, FlopCounter::remembering())) {
    rank.device.replay()->start(stretch.device);
  }
  ~Noting() {
    rank_.device.replay()->stop();
    stretch_.memory = rank_.ledger.exchange(memory_);
    rank_.ledger.add(stretch_.memory);
    stretch_.flops = std::exchange(rank_.flops, flops_);
    rank_.flops.add(stretch_.flops);
  }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  Rank& rank_;
  RankReplay::Stretch& stretch_;
  const Ledger::Sums memory_;
  const FlopCounter flops_;
};

}  // namespace

bool RankReplay::possible(const Rank& rank) {
  return rank.device.replay() != nullptr && !rank.ledger.records_timeline();
}

RankReplay::Stretch RankReplay::note(const std::function<void()>& make) {
  Stretch stretch;
  {
    const Noting noting(rank_, stretch);
    make();
  }
  return stretch;
}

bool RankReplay::fits(const Stretch& stretch) const {
  return rank_.device.replay()->fits(stretch.memory.peak_total);
}

void RankReplay::repeat(const Stretch& stretch) {
  rank_.device.replay()->repeat(stretch.device);
  rank_.ledger.add(stretch.memory);
  rank_.flops.add(stretch.flops);
}

Uncounted::Uncounted(Rank& rank)
    : rank_(rank),
      // With all memory free: what fitted beside others fits alone.
      device_(rank.device.replay()->exchange({})),
      ledger_(rank.ledger.exchange({})),
      flops_(rank.flops) {}

Uncounted::~Uncounted() {
  rank_.device.replay()->exchange(device_);
  rank_.ledger.exchange(ledger_);
  rank_.flops = flops_;
}

}  // namespace frugal::engine
