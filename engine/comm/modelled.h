#pragma once
#include <memory>

#include "engine/comm/communicator.h"
#include "engine/comm/groups.h"
#include "kernels/device.h"
#include "kernels/virtual/cost_model.h"

namespace frugal::engine {

/// The size that a collective or a message is charged for.
inline double charged_bytes(const View& view) { return static_cast<double>(view.bytes()); }

/// Work that ends at a time of its device's clock, or of its streams.
class ModelledWork final : public Pending::Work {
 public:
  ModelledWork(Device& device, const Event& end) : device_(device), end_(end) {}
  void wait() override { device_.wait(Stream::compute, end_); }

 private:
  Device& device_;
  const Event end_;
};

/// One rank of a group whose other ranks are absent. A collective keeps the group's stream of the
/// device busy for as long as the cost model of a described machine says, from the moment at which
/// the compute stream has produced its operands; waiting makes the compute stream wait for it.
///
/// On a device whose memory holds values, the absent ranks' part is this rank's own: a gathered
/// tensor repeats its shard, a sum is its own addend, a reduce-scatter keeps its own part, an
/// exchange or a shift copies, and what another rank would broadcast is zeros. Numbers that another
/// rank would send are normal ones of variance 1, because a GPU that multiplies zeros takes less
/// power, and so runs faster, than one that trains. The values mean nothing, but all are defined,
/// and finite where the operands are.
///
/// These copies go to the copy stream, beside the modelled time, so a collective takes the longer
/// of the two. On a cpu device they are computed before start returns, as everything is there; the
/// modelled end is not pushed back by that. A copy may run while an earlier collective is still
/// under way, which a real one would wait for.
class ModelledCommunicator final : public Communicator {
 public:
  /// The ranks of the group fill nodes one after the other.
  ModelledCommunicator(Device& device, const CostModel& costs, int rank, int size)
      : ModelledCommunicator(device, costs, rank, costs.group(size)) {}
  /// A group of which only some ranks share a node, as data-parallel groups do.
  ModelledCommunicator(Device& device, const CostModel& costs, int rank,
                       const CostModel::Group& group, const StreamSpec& stream = streams::tensors)
      : device_(device),
        costs_(costs),
        rank_(rank),
        group_(group),
        stream_(device.stream(stream)) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size; }
  bool whole() const override { return group_.size == 1; }

  /// i32 and u8 can be moved in multiples of 4 bytes.
  Pending all_reduce(const View& data) override;
  Pending all_gather(const View& shard, const View& all) override;
  Pending reduce_scatter(const View& all, const View& shard) override;
  Pending all_to_all(const View& from, const View& to) override;
  Pending broadcast(const View& data, int root) override;
  /// Both sides of a message are charged; the peer is taken to be as far as this rank is.
  Pending send(const View& data, int to) override;
  Pending receive(const View& data, int from) override;
  Pending shift(const View& from, const View& to) override;
  /// Seconds that collectives and messages have been charged for so far, whether something was
  /// computed beside them or not.
  double charged() const { return charged_; }
  /// Waits for the device too.
  void barrier() override;
  /// There is nobody to tell.
  void abort(const std::string& /*reason*/) noexcept override {}

 private:
  /// `move` issues the copies; it is called where there is memory to copy.
  template <class Move>
  Pending start(std::string_view name, double seconds, Move move);
  Pending start(std::string_view name, double seconds);
  double message_seconds(const View& data, int peer) const;
  void copy(const View& from, const View& to);
  void clear(const View& to);
  /// Numbers as of hidden states.
  void make_up(const View& to);

  Device& device_;
  const CostModel costs_;
  const int rank_;
  const CostModel::Group group_;
  const Stream stream_;
  double charged_ = 0;
};

/// A group of which one rank is here, or that has no other.
class ModelledGroup final : public Group {
 public:
  ModelledGroup(Device& device, const CostModel& costs, const CostModel::Group& group, int rank = 0,
                const StreamSpec& stream = streams::tensors)
      : communicator_(device, costs, rank, group, stream) {}
  int size() const override { return communicator_.size(); }
  Communicator& communicator(int /*rank*/) override { return communicator_; }
  void reset() override {}

 private:
  ModelledCommunicator communicator_;
};

/// A rank that has no peers, whose memory is the device's.
inline std::unique_ptr<Group> alone_on(Device& device) {
  return std::make_unique<ModelledGroup>(device, CostModel(Machine{}), CostModel::Group{});
}

}  // namespace frugal::engine
