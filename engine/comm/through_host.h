#pragma once
#include <memory>
#include <vector>

#include "engine/comm/communicator.h"
#include "kernels/device.h"

namespace frugal::engine {

/// A group of ranks whose memory is a device's, of which `inner` carries what is in the host's: a
/// call waits for what the compute stream has computed so far and copies its operand to the host,
/// and waiting for it copies the result back. Sums are the inner group's, bit for bit.
///
/// Copies lie in the host's memory that the device keeps; no ledger has them.
class ThroughHostGroup final : public Group {
 public:
  /// Member r computes on devices[r], which outlives the group; null where that is another
  /// process's. Several may share one.
  ThroughHostGroup(std::unique_ptr<Group> inner, const std::vector<Device*>& devices);
  ~ThroughHostGroup() override;

  int size() const override { return inner_->size(); }
  /// Communicator of a member that is here.
  Communicator& communicator(int rank) override {
    return *communicators_.at(static_cast<size_t>(rank));
  }
  void reset() override { inner_->reset(); }

 private:
  const std::unique_ptr<Group> inner_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // null where a member is not here
};

}  // namespace frugal::engine
