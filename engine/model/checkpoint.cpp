#include "engine/model/checkpoint.h"

#include <utility>

#include "engine/model/saved.h"

namespace frugal {
namespace {

/// Copies between device and host beside what is computed, once all that is issued to the compute
/// stream has ended; returns the end.
Event transfer(Rank& rank, const Tensor& from, const Tensor& to) {
  rank.device.wait(Stream::offload, rank.device.record(Stream::compute));
  rank.device.execute_on(Stream::offload, Transfer{from, to});
  return rank.device.record(Stream::offload);
}

/// The device's copy of what went to the host last may go when the compute stream knows that it has
/// arrived there: memory is used again in that stream's order.
void let_go(Rank& rank, OffloadInFlight& last) {
  if (last.source.empty()) return;
  rank.device.wait(Stream::compute, last.end);
  last.source.release();
}

}  // namespace

void Checkpoint::store(Rank& rank, const Tensor& x) {
  if (taken_ == Taken::never) return;
  let_go(rank, rank.offload);
  if (!rank.config.offload || taken_ == Taken::soon) {
    here_ = keep(x);
    return;
  }
  on_host_ = Tensor(rank.host, Kind::activation, x.type(), x.shape());
  rank.offload = {x, transfer(rank, x, on_host_)};
}

void Checkpoint::fetch(Rank& rank) {
  if (!here_.empty() || on_host_.empty()) return;
  let_go(rank, rank.offload);
  here_ = keep(rank.allocate(on_host_.type(), on_host_.shape()));
  arrived_ = transfer(rank, on_host_, here_);
}

Tensor Checkpoint::take(Rank& rank) {
  fetch(rank);
  if (!on_host_.empty()) {
    rank.device.wait(Stream::compute, arrived_);
    on_host_.release();
  }
  return std::exchange(here_, Tensor());
}

}  // namespace frugal
