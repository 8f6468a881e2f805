#include "engine/comm/decorated.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace frugal::engine {
namespace {

/// A rank's communicator in a group that carries what this one does.
class DecoratedCommunicator : public Communicator {
 public:
  explicit DecoratedCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool whole() const override { return inner_.whole(); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 protected:
  Communicator& inner_;
};

/// Returns true if no element has an exponent of ones. The loop has no exit, so it is vectorised.
template <class Bits>
bool all_finite(const void* data, int64_t count, Bits exponent) {
  const auto* const bits = static_cast<const Bits*>(data);
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i)
    found = static_cast<Bits>(found | static_cast<Bits>((bits[i] & exponent) == exponent));
  return found == 0;
}

bool is_finite(const View& view) {
  if (view.data == nullptr || !view.contiguous()) return true;
  switch (view.type) {
    case DType::f32:
      return all_finite<uint32_t>(view.data, view.size(), 0x7f800000U);
    case DType::bf16:
      return all_finite<uint16_t>(view.data, view.size(), 0x7f80U);
    case DType::f64:
      return all_finite<uint64_t>(view.data, view.size(), 0x7ff0000000000000U);
    case DType::u8:
    case DType::i32:
      break;
  }
  return true;
}

class ObservedWork final : public Pending::Work {
 public:
  ObservedWork(Activity& activity, const Activity::Call& call, Pending inner)
      : activity_(activity), call_(call), inner_(std::move(inner)) {}
  void wait() override {
    // What a rank did last is what it failed in, not what it lets go of.
    if (std::uncaught_exceptions() > exceptions_) return inner_.wait();
    activity_.waits_for(call_);
    inner_.wait();
    activity_.goes_on();
  }

 private:
  Activity& activity_;
  const Activity::Call call_;
  Pending inner_;
  const int exceptions_ = std::uncaught_exceptions();
};

class ObservedCommunicator final : public DecoratedCommunicator {
 public:
  ObservedCommunicator(Communicator& inner, Activity& activity, std::string_view group,
                       uint64_t& count)
      : DecoratedCommunicator(inner), activity_(activity), group_(group), count_(count) {}

  void barrier() override {
    activity_.waits_for({"barrier", group_, count_++, 0});
    inner_.barrier();
    activity_.goes_on();
  }

 private:
  Pending begin(const Call& call) override {
    const bool receives = call.kind == Call::Kind::receive;
    if (size() == 1 && !receives) return inner_.start(call);
    const Activity::Call noted{std::string(name_of(call.kind)), group_, count_++,
                               call.from.bytes()};
    if (!receives && !is_finite(call.from)) activity_.found_not_finite(noted);
    return Pending(std::make_unique<ObservedWork>(activity_, noted, inner_.start(call)));
  }

  Activity& activity_;
  const std::string group_;
  uint64_t& count_;
};

/// Memory of the host for a view of the device's.
class HostCopy {
 public:
  HostCopy(Device& device, const View& of)
      : device_(device),
        on_device_(of),
        on_host_(device.allocate_on_host(of.bytes()), of.type, {of.size()}) {}
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy() { device_.deallocate_on_host(on_host_.data, on_host_.bytes()); }

  const View& view() const { return on_host_; }
  void fetch() const { device_.copy_to_host(on_host_.data, on_device_); }
  void put_back() const { device_.copy_from_host(on_device_, on_host_.data); }

 private:
  Device& device_;
  const View on_device_, on_host_;
};

/// A call of the inner group, between the copies of its operands.
class ThroughHostWork final : public Pending::Work {
 public:
  /// `inner` communicates `from`; the result arrives at `to`. Null where a call has none.
  ThroughHostWork(std::unique_ptr<HostCopy> from, std::unique_ptr<HostCopy> to, Pending inner)
      : from_(std::move(from)), to_(std::move(to)), inner_(std::move(inner)) {}

  void wait() override {
    inner_.wait();
    // A rank that unwinds needs no result.
    if (to_ && std::uncaught_exceptions() == exceptions_) to_->put_back();
  }

 private:
  std::unique_ptr<HostCopy> from_, to_;  // what is under way has them
  Pending inner_;
  const int exceptions_ = std::uncaught_exceptions();
};

class ThroughHostCommunicator final : public DecoratedCommunicator {
 public:
  ThroughHostCommunicator(Communicator& inner, Device& device)
      : DecoratedCommunicator(inner), device_(device) {}

  /// Waits for the device, too.
  void barrier() override {
    device_.synchronize();
    inner_.barrier();
  }

 private:
  std::unique_ptr<HostCopy> room_for(const View& data) const {
    return std::make_unique<HostCopy>(device_, data);
  }
  std::unique_ptr<HostCopy> copy_of(const View& data) const {
    auto copy = room_for(data);
    copy->fetch();
    return copy;
  }
  Pending begin(const Call& call) override {
    using Kind = Call::Kind;
    const bool in_place = call.kind == Kind::all_reduce || call.kind == Kind::broadcast;
    const bool gives = !in_place && call.kind != Kind::receive;
    const bool takes = !in_place && call.kind != Kind::send;
    auto from = gives ? copy_of(call.from) : nullptr;
    auto to = in_place ? copy_of(call.to) : takes ? room_for(call.to) : nullptr;
    Call on_host = call;
    on_host.from = (from ? from : to)->view();
    on_host.to = (to ? to : from)->view();
    Pending started = inner_.start(on_host);
    return Pending(
        std::make_unique<ThroughHostWork>(std::move(from), std::move(to), std::move(started)));
  }

  Device& device_;
};

/// One end of an edge.
struct EdgeEnd {
  int peer;
  bool sends;
  Communicator& communicator;
};

class EdgesCommunicator final : public Communicator {
 public:
  EdgesCommunicator(Communicator& meeting, std::vector<EdgeEnd> ends)
      : meeting_(meeting), ends_(std::move(ends)) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }

  /// All ranks use the edges in one order, so that none waits for one that waits for it.
  void barrier() override {
    for (const EdgeEnd& end : ends_) end.communicator.barrier();
    meeting_.barrier();
  }
  void abort(const std::string& reason) noexcept override {
    meeting_.abort(reason);
    for (const EdgeEnd& end : ends_) end.communicator.abort(reason);
  }

 private:
  Pending begin(const Call& call) override {
    const bool sends = call.kind == Call::Kind::send;
    const auto along = std::ranges::find_if(
        ends_, [&](const EdgeEnd& end) { return end.peer == call.peer && end.sends == sends; });
    if (along == ends_.end() || (!sends && call.kind != Call::Kind::receive))
      throw std::logic_error("edges of messages: only along an edge, from its first rank");
    return sends ? along->communicator.send(call.from, 1) : along->communicator.receive(call.to, 0);
  }

  Communicator& meeting_;
  const std::vector<EdgeEnd> ends_;
};

}  // namespace

ObservedGroup::ObservedGroup(std::unique_ptr<Group> group, const std::vector<Activity*>& activities,
                             std::string_view name)
    : group_(std::move(group)), counts_(activities.size()) {
  for (size_t i = 0; i < activities.size(); ++i)
    communicators_.push_back(
        activities[i] == nullptr
            ? nullptr
            : std::make_unique<ObservedCommunicator>(group_->communicator(static_cast<int>(i)),
                                                     *activities[i], name, counts_[i]));
}

void ObservedGroup::reset() {
  group_->reset();
  counts_.assign(counts_.size(), 0);
}

ThroughHostGroup::ThroughHostGroup(std::unique_ptr<Group> inner,
                                   const std::vector<Device*>& devices)
    : inner_(std::move(inner)) {
  for (Device* const device : devices) {
    const auto rank = static_cast<int>(communicators_.size());
    communicators_.push_back(device == nullptr ? nullptr
                                               : std::make_unique<ThroughHostCommunicator>(
                                                     inner_->communicator(rank), *device));
  }
}

MessageEdges::MessageEdges(std::unique_ptr<Group> meeting, const std::vector<Edge>& edges,
                           const MakeEdge& make)
    : meeting_(std::move(meeting)) {
  for (const Edge& edge : edges) groups_.push_back(make(edge));
  for (int rank = 0; rank < meeting_->size(); ++rank) {
    std::vector<EdgeEnd> ends;
    bool here = true;
    for (size_t i = 0; i < edges.size(); ++i) {
      const auto [from, to] = edges[i];
      if (from != rank && to != rank) continue;
      here = here && groups_[i] != nullptr;
      if (!here) break;
      const bool sends = from == rank;
      ends.push_back({sends ? to : from, sends, groups_[i]->communicator(sends ? 0 : 1)});
    }
    communicators_.push_back(
        here ? std::make_unique<EdgesCommunicator>(meeting_->communicator(rank), std::move(ends))
             : nullptr);
  }
}

void MessageEdges::reset() {
  meeting_->reset();
  for (const auto& group : groups_)
    if (group) group->reset();
}

}  // namespace frugal::engine
