#pragma once
#include "engine/pass.h"

namespace frugal::engine {

/// A layer's input that is kept from the forward to the backward pass for recomputation: on the
/// device, or where the run offloads in the host's memory. It goes there while the layer computes,
/// and comes back while the layer behind it is in its backward pass.
class Checkpoint {
 public:
  /// When it is taken: soon is before any other is stored, so that it need not go to the host.
  enum class Taken : uint8_t { later, soon, never };

  Checkpoint() = default;
  explicit Checkpoint(Taken taken) : taken_(taken) {}

  /// Keeps x [s/t, b, h]. Copying to the host waits for what has been issued to compute x.
  void store(const Pass& pass, const Tensor& x);
  /// Starts to bring it back to the device, if it is not there.
  void fetch(const Pass& pass);
  /// The tensor; fetched if it has not been. It is not kept any longer.
  Tensor take(const Pass& pass);

 private:
  Taken taken_ = Taken::later;
  Tensor here_, on_host_;
  Event arrived_;
};

}  // namespace frugal::engine
