#pragma once
#include <memory>

#include "engine/comm/group.h"
#include "kernels/device.h"

namespace frugal::engine {

/// A group of processes whose memory is a device's, of which `inner` carries what is in the host's:
/// a call waits for what the compute stream has computed so far and copies its operand to the host,
/// and waiting for it copies the result back. Sums are the inner group's, bit for bit.
///
/// Copies lie in the host's memory that the device keeps; no ledger has them.
class ThroughHostGroup final : public Group {
 public:
  /// This process is the member `rank`. The device outlives the group.
  ThroughHostGroup(std::unique_ptr<Group> inner, int rank, Device& device);
  ~ThroughHostGroup() override;

  int size() const override { return inner_->size(); }
  /// This process's.
  Communicator& communicator(int /*rank*/) override { return *communicator_; }
  void reset() override { inner_->reset(); }

 private:
  const std::unique_ptr<Group> inner_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace frugal::engine
