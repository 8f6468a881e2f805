#include "engine/model/checkpoint.h"

#include <utility>

#include "engine/model/saved.h"

namespace frugal::engine {
namespace {

/// Copies between device and host beside what is computed, once all that is issued to the compute
/// stream has ended; returns the end.
Event transfer(Device& device, const Tensor& from, const Tensor& to) {
  device.wait(Stream::offload, device.record(Stream::compute));
  device.execute_on(Stream::offload, Transfer{from, to});
  return device.record(Stream::offload);
}

/// The device's copy of what went to the host last may go when the compute stream knows that it has
/// arrived there: memory is used again in that stream's order.
void let_go(Device& device, OffloadInFlight& last) {
  if (last.source.empty()) return;
  device.wait(Stream::compute, last.end);
  last.source.release();
}

}  // namespace

void Checkpoint::store(const Pass& pass, const Tensor& x) {
  if (taken_ == Taken::never) return;
  let_go(pass.rank.device, pass.rank.offload);
  if (!pass.rank.config.offload || taken_ == Taken::soon) {
    here_ = keep(pass, x);
    return;
  }
  on_host_ = Tensor(pass.rank.host, Kind::activation, x.type(), x.shape());
  pass.rank.offload = {x, transfer(pass.rank.device, x, on_host_)};
}

void Checkpoint::fetch(const Pass& pass) {
  if (!here_.empty() || on_host_.empty()) return;
  let_go(pass.rank.device, pass.rank.offload);
  here_ = keep(pass, pass.allocate(on_host_.type(), on_host_.shape()));
  arrived_ = transfer(pass.rank.device, on_host_, here_);
}

Tensor Checkpoint::take(const Pass& pass) {
  fetch(pass);
  if (!on_host_.empty()) {
    pass.rank.device.wait(Stream::compute, arrived_);
    on_host_.release();
  }
  return std::exchange(here_, Tensor());
}

}  // namespace frugal::engine
