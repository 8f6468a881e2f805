#pragma once
#include <memory>

#include "engine/comm/communicator.h"
#include "engine/comm/groups.h"
#include "kernels/device.h"
#include "kernels/virtual/cost_model.h"

namespace frugal::engine {

/// The size that a collective or a message is charged for.
inline double charged_bytes(const View& view) { return static_cast<double>(view.bytes()); }

/// Seconds of a collective of such a group, which charged_bytes() are of what one rank holds before
/// or after it, whichever is more.
double seconds_of_collective(const CostModel& costs, const CostModel::Group& group,
                             const Call& call);

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

  /// Seconds that collectives and messages have been charged for so far, whether something was
  /// computed beside them or not.
  double charged() const { return charged_; }
  /// Waits for the device too.
  void barrier() override {
    begin({}).wait();
    device_.synchronize();
  }
  /// There is nobody to tell.
  void abort(const std::string& /*reason*/) noexcept override {}

 private:
  Pending begin(const Call& call) override;
  /// Seconds of a call. Both sides of a message are charged; the peer is taken to be as far as this
  /// rank is.
  double seconds_of(const Call& call) const;
  /// Issues the copies that give this rank's memory the absent ranks' part. i32 and u8 can be moved
  /// in multiples of 4 bytes.
  void move(const Call& call);
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
                const StreamSpec& stream = streams::tensors) {
    communicators_.push_back(
        std::make_unique<ModelledCommunicator>(device, costs, rank, group, stream));
  }
};

/// A rank that has no peers, whose memory is the device's.
inline std::unique_ptr<Group> alone_on(Device& device) {
  return std::make_unique<ModelledGroup>(device, CostModel(Machine{}), CostModel::Group{});
}

}  // namespace frugal::engine
