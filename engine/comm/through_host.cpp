#include "engine/comm/through_host.h"

#include <exception>

#include "engine/comm/communicator.h"

namespace frugal::engine {
namespace {

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
  /// Communicates `from`; the result arrives at `to`. Null where a call has none.
  ThroughHostWork(std::unique_ptr<HostCopy> from, std::unique_ptr<HostCopy> to)
      : from_(std::move(from)), to_(std::move(to)) {}

  const View& from() const { return from_->view(); }
  const View& to() const { return to_->view(); }
  void started(Pending inner) { inner_ = std::move(inner); }

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

class ThroughHostCommunicator final : public Communicator {
 public:
  ThroughHostCommunicator(Communicator& inner, Device& device) : inner_(inner), device_(device) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool whole() const override { return inner_.whole(); }

  Pending all_reduce(const View& data) override {
    contract::summed("all-reduce", data);
    return in_place(data, [&](const View& host) { return inner_.all_reduce(host); });
  }
  Pending all_gather(const View& shard, const View& all) override {
    contract::gathered("all-gather", shard, all, size());
    return moved(shard, all,
                 [&](const View& from, const View& to) { return inner_.all_gather(from, to); });
  }
  Pending reduce_scatter(const View& all, const View& shard) override {
    contract::summed("reduce-scatter", all);
    contract::gathered("reduce-scatter", shard, all, size());
    return moved(all, shard,
                 [&](const View& from, const View& to) { return inner_.reduce_scatter(from, to); });
  }
  Pending all_to_all(const View& from, const View& to) override {
    contract::exchanged(from, to, size());
    return moved(from, to, [&](const View& own, const View& others) {
      return inner_.all_to_all(own, others);
    });
  }
  Pending broadcast(const View& data, int root) override {
    contract::moved("broadcast", data);
    contract::peer("broadcast", root, size());
    return in_place(data, [&](const View& host) { return inner_.broadcast(host, root); });
  }
  Pending send(const View& data, int to) override {
    contract::moved("send", data);
    contract::peer("send", to, size());
    auto work = std::make_unique<ThroughHostWork>(copy_of(data), nullptr);
    work->started(inner_.send(work->from(), to));
    return Pending(std::move(work));
  }
  Pending receive(const View& data, int from) override {
    contract::moved("receive", data);
    contract::peer("receive", from, size());
    auto work = std::make_unique<ThroughHostWork>(nullptr, room_for(data));
    work->started(inner_.receive(work->to(), from));
    return Pending(std::move(work));
  }
  Pending shift(const View& from, const View& to) override {
    contract::shifted(from, to);
    return moved(from, to,
                 [&](const View& own, const View& other) { return inner_.shift(own, other); });
  }
  /// Waits for the device, too.
  void barrier() override {
    device_.synchronize();
    inner_.barrier();
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  std::unique_ptr<HostCopy> room_for(const View& data) const {
    return std::make_unique<HostCopy>(device_, data);
  }
  std::unique_ptr<HostCopy> copy_of(const View& data) const {
    auto copy = room_for(data);
    copy->fetch();
    return copy;
  }
  template <class Start>
  Pending in_place(const View& data, Start start) const {
    auto work = std::make_unique<ThroughHostWork>(nullptr, copy_of(data));
    work->started(start(work->to()));
    return Pending(std::move(work));
  }
  template <class Start>
  Pending moved(const View& from, const View& to, Start start) const {
    auto work = std::make_unique<ThroughHostWork>(copy_of(from), room_for(to));
    work->started(start(work->from(), work->to()));
    return Pending(std::move(work));
  }

  Communicator& inner_;
  Device& device_;
};

}  // namespace

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

ThroughHostGroup::~ThroughHostGroup() = default;

}  // namespace frugal::engine
