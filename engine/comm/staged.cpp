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

/// The messages of one stage where it exchanges them with its neighbours (Messages::exchanged):
/// before it computes on it waits until what it has sent is there, and what it needs next. With the
/// same neighbour both are under way together; otherwise it sends first, and is then ready to
/// receive. A message begins when its sender has computed it and its receiver is ready for it.
///
/// A stage says that it is ready to receive before it waits for what it has sent to the same
/// neighbour, so that two stages that send to each other do not wait for each other.
class Exchange {
 public:
  explicit Exchange(VirtualDevice& device) : device_(device) {}

  /// One end of a message: whom `rank` sends it to, or who sends it to `rank`.
  struct Message {
    Rendezvous* rendezvous = nullptr;
    int rank = 0, peer = 0;
    Stream stream;
    View data;
    uint64_t number = 0;  ///< of the message where it is received, of the answer where it is sent
    double ready = 0;     ///< when this end is
    LinkCost cost;
  };
  void send(const Message& message);
  /// Waits, with device and host, for what has been sent and for what is to be received.
  void complete(Message* received = nullptr);
  /// Forgets what has been sent.
  void reset() { sent_.clear(); }

 private:
  /// Crossing of a message that was sent, once both ends are ready.
  static Crossing sending(const Message& sent);
  /// Returns when the sender is through with a message that crosses until then.
  double finish(const Message& sent, const Crossing& crossing, double end);

  VirtualDevice& device_;
  std::vector<Message> sent_;
};

void Exchange::send(const Message& message) {
  message.rendezvous->post(message.rank, message.peer, message.data, message.ready);
  sent_.push_back(message);
}

void Exchange::complete(Message* received) {
  std::vector<Message> sent = std::exchange(sent_, {});
  const auto with_received = std::stable_partition(sent.begin(), sent.end(), [&](const Message& m) {
    return received == nullptr || m.peer != received->peer;
  });
  for (auto m = sent.begin(); m != with_received; ++m) {
    const Crossing crossing = sending(*m);
    const double over = finish(*m, crossing, crossing.end());
    if (received != nullptr) received->ready = std::max(received->ready, over);
  }
  if (received == nullptr) return;
  received->rendezvous->post(received->rank, received->peer, {}, received->ready,
                             Rendezvous::MessageKind::ready);
  std::vector<Crossing> opposite;
  for (auto m = with_received; m != sent.end(); ++m) opposite.push_back(sending(*m));
  const double posted =
      received->rendezvous->take(received->peer, received->rank, received->number, received->data);
  const Crossing coming{std::max(received->ready, posted), received->cost};
  double last = coming.end();
  for (size_t i = 0; i < opposite.size(); ++i) {
    const auto [of_sent, of_received] = ends_of_both(opposite[i], coming);
    finish(with_received[static_cast<std::ptrdiff_t>(i)], opposite[i], of_sent);
    last = std::max(last, of_received);
  }
  device_.hold_up({.time = last, .handle = nullptr});
}

Crossing Exchange::sending(const Message& sent) {
  const double taken =
      sent.rendezvous->take(sent.peer, sent.rank, sent.number, {}, Rendezvous::MessageKind::ready);
  return {std::max(sent.ready, taken), sent.cost};
}

double Exchange::finish(const Message& sent, const Crossing& crossing, double end) {
  device_.occupy_between(sent.stream, "send", crossing.begin, end);
  const double over = crossing.sender_is_through(end);
  device_.hold_up({.time = over, .handle = nullptr});
  return over;
}

namespace {

/// Arrival of a message, which its receiver finds out once: when it waits for it, or when it issues
/// something behind it.
class StagedArrival {
 public:
  explicit StagedArrival(const Exchange::Message& message) : message_(message) {}
  double time() {
    if (!time_) {
      time_ = message_.ready;  // of one that does not fit: nobody takes it a second time
      // The message carries the time at which it began.
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
  /// The ranks of the stage gather their parts of a message for so many seconds. `arrival`: null of
  /// a message that is exchanged.
  StagedReceive(VirtualDevice& device, Exchange& exchange, const Exchange::Message& message,
                double gather, std::shared_ptr<StagedArrival> arrival)
      : RendezvousWork(*message.rendezvous, message.rank),
        device_(device),
        exchange_(exchange),
        message_(message),
        gather_(gather),
        arrival_(std::move(arrival)) {}

 private:
  void finish() override {
    if (arrival_ == nullptr) {
      message_.ready = std::max(message_.ready, device_.record(Stream::compute).time);
      exchange_.complete(&message_);
    } else {
      const Event there{.time = arrival_->time(), .handle = nullptr};
      if (device_.rules().messages.kind == Messages::blocking)
        device_.hold_up(there);
      else
        device_.wait(Stream::compute, there);
    }
    if (gather_ > 0) device_.occupy(Stream::compute, gather_, "all-gather");
  }

  VirtualDevice& device_;
  Exchange& exchange_;
  Exchange::Message message_;
  const double gather_;
  const std::shared_ptr<StagedArrival> arrival_;
};

/// A message that is sent in an exchange.
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
  /// ranks of its own node (Topology::senders), `same` the ranks of the stage that have the same to
  /// send.
  StagedCommunicator(VirtualDevice& device, Exchange& exchange, Stream stream,
                     Rendezvous& rendezvous, int rank, const CostModel::Group& group,
                     std::vector<Senders> senders, const CostModel::Group& same)
      : device_(device),
        exchange_(exchange),
        costs_(device.costs()),
        kind_(device.rules().messages.kind),
        stream_(stream),
        rendezvous_(rendezvous),
        rank_(rank),
        group_(group),
        senders_(std::move(senders)),
        same_(same) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size; }

  /// Waits for the device too.
  void barrier() override {
    meet({}).wait();
    device_.synchronize();
  }
  void abort(const std::string& reason) noexcept override { rendezvous_.fail(reason); }

 private:
  Pending begin(const Call& call) override {
    if (call.kind == Call::Kind::send) return begin_sending(call.from, call.peer);
    if (call.kind == Call::Kind::receive) return begin_receiving(call.to, call.peer);
    return meet(call);
  }
  Pending begin_sending(const View& data, int to) {
    Exchange::Message message = message_of(senders_[static_cast<size_t>(to)], data, to);
    message.ready = issue();
    if (kind_ == Messages::exchanged) {
      message.number = rendezvous_.expect(to, rank_, Rendezvous::MessageKind::ready);
      exchange_.send(message);
      return Pending(std::make_unique<StagedSend>(exchange_, rendezvous_, rank_));
    }
    Pending sent = occupy("send", message.ready, message.cost.alone);
    if (kind_ == Messages::blocking) device_.hold_up(device_.record(stream_));
    rendezvous_.post(rank_, to, data, message.ready);
    return sent;
  }
  Pending begin_receiving(const View& data, int from) {
    Exchange::Message message =
        message_of(senders_[static_cast<size_t>(from)].reversed(), data, from);
    message.ready = device_.issue(stream_);
    message.number = rendezvous_.expect(from, rank_);
    std::shared_ptr<StagedArrival> arrival;
    if (kind_ != Messages::exchanged) {
      arrival = std::make_shared<StagedArrival>(message);
      device_.hold(stream_, [arrival] { return arrival->time(); });
    }
    const double gather = costs_.all_gather(same_, charged_bytes(data));
    return Pending(std::make_unique<StagedReceive>(device_, exchange_, message, gather, arrival));
  }
  /// Message of which each rank that has the same to send sends its part.
  Exchange::Message message_of(const Senders& senders, const View& data, int peer) {
    return {.rendezvous = &rendezvous_,
            .rank = rank_,
            .peer = peer,
            .stream = stream_,
            .data = data,
            .cost = link_cost(costs_, senders, charged_bytes(data) / same_.size)};
  }
  /// Returns when this rank is ready for what it issues now, behind what was computed so far.
  double issue() {
    device_.wait(stream_, device_.record(Stream::compute));
    return device_.issue(stream_);
  }
  /// A collective: begins when the last of the ranks is ready for it.
  Pending meet(const Call& call) {
    if (size() == 1) return {};
    const double ready = issue();
    const double begin = rendezvous_.finish(rank_, *rendezvous_.start(rank_, call, ready));
    return occupy(name_of(call.kind), begin, seconds_of_collective(costs_, group_, call));
  }
  Pending occupy(std::string_view name, double begin, double seconds) {
    device_.occupy_between(stream_, name, begin, begin + seconds);
    return Pending(std::make_unique<ModelledWork>(device_, device_.record(stream_)));
  }

  VirtualDevice& device_;
  Exchange& exchange_;
  const CostModel& costs_;
  const Messages kind_;
  const Stream stream_;
  Rendezvous& rendezvous_;
  const int rank_;
  const CostModel::Group group_;
  const std::vector<Senders> senders_;
  const CostModel::Group same_;
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
  const auto no_part = [](int /*rank*/, const std::vector<Call>& /*calls*/) {};
  rendezvous_ =
      std::make_unique<Rendezvous>(topology.size(group), deadline, std::move(names), no_part);
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
        device, exchanges_->at(static_cast<size_t>(stage)), device.stream(group.stream),
        *rendezvous_, rank, topology.on_nodes(group, stage, per_node), std::move(senders),
        sharded ? topology.on_nodes(group::tensor, stage, per_node) : CostModel::Group{}));
  }
}

StagedGroup::~StagedGroup() = default;

void StagedGroup::reset() {
  rendezvous_->reset();
  for (Exchange& exchange : *exchanges_) exchange.reset();
  for (VirtualDevice* device : devices_) device->let_go();
}

}  // namespace frugal::engine
