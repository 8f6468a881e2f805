#pragma once
#include "engine/comm/communicator.h"
#include "kernels/virtual/device.h"

namespace frugal {

/// One rank that stands for the equal ranks of a group. A collective keeps the device's
/// communication stream busy for as long as the machine's cost model says, from the moment at which
/// the compute stream has produced its operands; waiting makes the compute stream wait for it.
class VirtualCommunicator final : public Communicator {
 public:
  /// The ranks of the group fill nodes one after the other.
  VirtualCommunicator(VirtualDevice& device, int rank, int size)
      : VirtualCommunicator(device, rank, device.costs().group(size)) {}
  /// A group of which only some ranks share a node, as data-parallel groups do.
  VirtualCommunicator(VirtualDevice& device, int rank, const CostModel::Group& group)
      : device_(device), rank_(rank), group_(group) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size; }

  Pending all_reduce(const View& data) override;
  Pending all_gather(const View& shard, const View& all) override;
  Pending reduce_scatter(const View& all, const View& shard) override;
  Pending all_to_all(const View& from, const View& to) override;
  Pending broadcast(const View& data, int root) override;
  /// Both sides of a message are charged; the peer is taken to be as far as this rank is.
  Pending send(const View& data, int to) override;
  Pending receive(const View& data, int from) override;
  void barrier() override;
  /// There is nobody to tell.
  void abort(const std::string& /*reason*/) noexcept override {}

 private:
  Pending start(std::string_view name, double seconds);
  Pending message(const char* name, const View& data, int peer);

  VirtualDevice& device_;
  const int rank_;
  const CostModel::Group group_;
};

}  // namespace frugal
