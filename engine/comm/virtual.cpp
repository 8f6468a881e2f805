#include "engine/comm/virtual.h"

#include "engine/comm/contract.h"

namespace frugal {
namespace {

class VirtualWork final : public Pending::Work {
 public:
  VirtualWork(VirtualDevice& device, const Event& end) : device_(device), end_(end) {}
  void wait() override { device_.wait(Stream::compute, end_); }

 private:
  VirtualDevice& device_;
  const Event end_;
};

double bytes(const View& view) { return static_cast<double>(view.bytes()); }

}  // namespace

Pending VirtualCommunicator::start(std::string_view name, double seconds) {
  if (group_.size == 1) return {};
  device_.wait(Stream::communication, device_.record(Stream::compute));
  device_.occupy(Stream::communication, seconds, name);
  return Pending(std::make_unique<VirtualWork>(device_, device_.record(Stream::communication)));
}

Pending VirtualCommunicator::all_reduce(const View& data) {
  contract::summed("all-reduce", data);
  return start("all-reduce", device_.costs().all_reduce(group_, bytes(data)));
}

Pending VirtualCommunicator::all_gather(const View& shard, const View& all) {
  contract::gathered("all-gather", shard, all, size());
  return start("all-gather", device_.costs().all_gather(group_, bytes(all)));
}

Pending VirtualCommunicator::reduce_scatter(const View& all, const View& shard) {
  contract::summed("reduce-scatter", all);
  contract::gathered("reduce-scatter", shard, all, size());
  return start("reduce-scatter", device_.costs().reduce_scatter(group_, bytes(all)));
}

Pending VirtualCommunicator::all_to_all(const View& from, const View& to) {
  contract::exchanged(from, to, size());
  return start("all-to-all", device_.costs().all_to_all(group_, bytes(from)));
}

Pending VirtualCommunicator::broadcast(const View& data, int root) {
  contract::moved("broadcast", data);
  contract::peer("broadcast", root, size());
  return start("broadcast", device_.costs().broadcast(group_, bytes(data)));
}

Pending VirtualCommunicator::message(const char* name, const View& data, int peer) {
  contract::moved(name, data);
  contract::peer(name, peer, size());
  const bool same_node = peer / group_.per_node == rank_ / group_.per_node;
  return start(name, device_.costs().message(same_node, bytes(data)));
}

Pending VirtualCommunicator::send(const View& data, int to) { return message("send", data, to); }

Pending VirtualCommunicator::receive(const View& data, int from) {
  return message("receive", data, from);
}

void VirtualCommunicator::barrier() {
  start("barrier", device_.costs().all_reduce(group_, 0)).wait();
  device_.synchronize();
}

}  // namespace frugal
