#include "engine/comm/staged.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/comm/communicator.h"
#include "engine/comm/modelled.h"
#include "engine/comm/rendezvous.h"
#include "engine/comm/stage_links.h"

namespace frugal::engine {
namespace {

/// How one end of a stage's messages takes part in them.
struct Side {
  VirtualDevice& device;
  Exchange& exchange;
  const CostModel::Group same;  ///< ranks of the stage that have the same to send
  Messages kind() const { return device.rules().messages.kind; }
};

/// When a message is there, which its receiver finds out once: when it waits for it, or when it
/// issues something behind it.
class StagedArrival {
 public:
  explicit StagedArrival(const Exchange::Message& message) : message_(message) {}
  double time() {
    if (!time_) {
      time_ = message_.ready;  // of one that does not fit: nobody takes it a second time
      // What it arrives with is when it began.
      time_ = message_.cost.alone + message_.rendezvous->take(message_.peer, message_.rank,
                                                              message_.number, message_.data);
    }
    return *time_;
  }

 private:
  const Exchange::Message message_;
  std::optional<double> time_;
};

class StagedReceive final : public RendezvousWork {
 public:
  /// `arrival`: null of a message that is exchanged.
  StagedReceive(const Side& side, const Exchange::Message& message,
                std::shared_ptr<StagedArrival> arrival)
      : RendezvousWork(*message.rendezvous, message.rank),
        side_(side),
        message_(message),
        arrival_(std::move(arrival)),
        gather_(side.device.costs().all_gather(side.same, charged_bytes(message.data))) {}

 private:
  void finish() override {
    VirtualDevice& device = side_.device;
    if (side_.kind() == Messages::exchanged) {
      message_.ready = std::max(message_.ready, device.record(Stream::compute).time);
      side_.exchange.complete(&message_);
    } else {
      const Event there{.time = arrival_->time(), .handle = nullptr};
      if (side_.kind() == Messages::blocking)
        device.hold_up(there);
      else
        device.wait(Stream::compute, there);
    }
    if (gather_ > 0) device.occupy(Stream::compute, gather_, "all-gather");
  }

  const Side side_;
  Exchange::Message message_;
  const std::shared_ptr<StagedArrival> arrival_;
  const double gather_;
};

/// Of a message that is exchanged.
class StagedSend final : public RendezvousWork {
 public:
  StagedSend(Exchange& exchange, Rendezvous& rendezvous, int rank)
      : RendezvousWork(rendezvous, rank), exchange_(exchange) {}

 private:
  void finish() override { exchange_.complete(); }
  Exchange& exchange_;
};

class StagedCommunicator final : public Communicator {
 public:
  /// `senders` are those of a node that send with this one to each rank of the group, or 0 for
  /// ranks of its own node (Topology::senders).
  StagedCommunicator(VirtualDevice& device, Stream stream, Rendezvous& rendezvous, int rank,
                     const CostModel::Group& group, std::vector<Senders> senders, const Side& side)
      : device_(device),
        costs_(device.costs()),
        stream_(stream),
        rendezvous_(rendezvous),
        rank_(rank),
        group_(group),
        senders_(std::move(senders)),
        side_(side) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size; }

  Pending all_reduce(const View& data) override {
    contract::summed("all-reduce", data);
    return meet("all-reduce", data, 0, costs_.all_reduce(group_, charged_bytes(data)));
  }
  Pending all_gather(const View& shard, const View& all) override {
    contract::gathered("all-gather", shard, all, size());
    return meet("all-gather", shard, 0, costs_.all_gather(group_, charged_bytes(all)));
  }
  Pending reduce_scatter(const View& all, const View& shard) override {
    contract::summed("reduce-scatter", all);
    contract::gathered("reduce-scatter", shard, all, size());
    return meet("reduce-scatter", all, 0, costs_.reduce_scatter(group_, charged_bytes(all)));
  }
  Pending all_to_all(const View& from, const View& to) override {
    contract::exchanged(from, to, size());
    return meet("all-to-all", from, 0, costs_.all_to_all(group_, charged_bytes(from)));
  }
  Pending broadcast(const View& data, int root) override {
    contract::moved("broadcast", data);
    contract::peer("broadcast", root, size());
    return meet("broadcast", data, root, costs_.broadcast(group_, charged_bytes(data)));
  }
  Pending send(const View& data, int to) override {
    contract::moved("send", data);
    contract::peer("send", to, size());
    Exchange::Message message = message_of(senders_[static_cast<size_t>(to)], data, to);
    message.ready = issue();
    if (side_.kind() == Messages::exchanged) {
      message.number = rendezvous_.expect(to, rank_, Rendezvous::MessageKind::ready);
      side_.exchange.send(message);
      return Pending(std::make_unique<StagedSend>(side_.exchange, rendezvous_, rank_));
    }
    Pending sent = occupy("send", message.ready, message.cost.alone);
    if (side_.kind() == Messages::blocking) device_.hold_up(device_.record(stream_));
    rendezvous_.post(rank_, to, data, message.ready);
    return sent;
  }
  Pending receive(const View& data, int from) override {
    contract::moved("receive", data);
    contract::peer("receive", from, size());
    Exchange::Message message =
        message_of(senders_[static_cast<size_t>(from)].reversed(), data, from);
    message.ready = device_.issue(stream_);
    message.number = rendezvous_.expect(from, rank_);
    if (side_.kind() == Messages::exchanged)
      return Pending(std::make_unique<StagedReceive>(side_, message, nullptr));
    auto arrival = std::make_shared<StagedArrival>(message);
    device_.hold(stream_, [arrival] { return arrival->time(); });
    return Pending(std::make_unique<StagedReceive>(side_, message, arrival));
  }
  /// Waits for the device too.
  void barrier() override {
    meet("barrier", {}, 0, costs_.all_reduce(group_, 0)).wait();
    device_.synchronize();
  }
  void abort(const std::string& reason) noexcept override { rendezvous_.fail(reason); }

 private:
  /// Message of which each rank that has the same to send sends its part.
  Exchange::Message message_of(const Senders& senders, const View& data, int peer) {
    return {.rendezvous = &rendezvous_,
            .rank = rank_,
            .peer = peer,
            .stream = stream_,
            .data = data,
            .cost = link_cost(costs_, senders, charged_bytes(data) / side_.same.size)};
  }
  /// When this rank is ready for something that it issues now, behind what was computed so far.
  double issue() {
    device_.wait(stream_, device_.record(Stream::compute));
    return device_.issue(stream_);
  }
  /// A collective: begins when the last of the ranks is ready for it.
  Pending meet(std::string_view name, const View& data, int root, double seconds) {
    if (size() == 1) return {};
    double begin = 0;
    const Rendezvous::Call call{
        .name = name,
        .in = data,
        .out = {},
        .root = root,
        .part =
            [&begin](int /*rank*/, const std::vector<Rendezvous::Call>& calls) {
              for (const Rendezvous::Call& each : calls) begin = std::max(begin, each.ready);
            },
        .ready = issue()};
    rendezvous_.finish(rank_, *rendezvous_.start(rank_, call));
    return occupy(name, begin, seconds);
  }
  Pending occupy(std::string_view name, double begin, double seconds) {
    device_.occupy_between(stream_, name, begin, begin + seconds);
    return Pending(std::make_unique<ModelledWork>(device_, device_.record(stream_)));
  }

  VirtualDevice& device_;
  const CostModel& costs_;
  const Stream stream_;
  Rendezvous& rendezvous_;
  const int rank_;
  const CostModel::Group group_;
  const std::vector<Senders> senders_;
  const Side side_;
};

}  // namespace

std::shared_ptr<Exchanges> exchanges_of(const std::vector<VirtualDevice*>& devices) {
  auto exchanges = std::make_shared<Exchanges>();
  for (VirtualDevice* device : devices) exchanges->emplace_back(*device);
  return exchanges;
}

StagedGroup::StagedGroup(const std::vector<VirtualDevice*>& devices, const Topology& topology,
                         const GroupSpec& group, std::shared_ptr<Exchanges> exchanges,
                         Replicated replicated, double deadline)
    : exchanges_(std::move(exchanges)), devices_(devices) {
  std::vector<int> stages;
  std::vector<std::string> names;
  for (const int member : topology.members(group, 0)) {
    stages.push_back(topology.coordinate("stages", member));
    names.push_back(fmt::format("stage {}", stages.back()));
  }
  rendezvous_ = std::make_unique<Rendezvous>(topology.size(group), deadline, std::move(names));
  for (int rank = 0; rank < topology.size(group); ++rank) {
    const int stage = stages[static_cast<size_t>(rank)];
    VirtualDevice& device = *devices.at(static_cast<size_t>(stage));
    const auto per_node = static_cast<int>(device.machine().devices_per_node);
    const bool sharded =
        replicated == Replicated::over_tensor_group && device.rules().messages.sharded;
    std::vector<Senders> senders;
    for (const int to : stages)
      senders.push_back(Senders::between(topology, device.rules(), stage, to, per_node));
    communicators_.push_back(std::make_unique<StagedCommunicator>(
        device, device.stream(group.stream), *rendezvous_, rank,
        topology.on_nodes(group, stage, per_node), std::move(senders),
        Side{device, exchanges_->at(static_cast<size_t>(stage)),
             sharded ? topology.on_nodes(group::tensor, stage, per_node) : CostModel::Group{}}));
  }
}

StagedGroup::~StagedGroup() = default;

void StagedGroup::reset() {
  rendezvous_->reset();
  for (Exchange& exchange : *exchanges_) exchange.reset();
  for (VirtualDevice* device : devices_) device->let_go();
}

}  // namespace frugal::engine
