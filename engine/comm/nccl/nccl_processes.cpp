#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/comm/modelled.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/processes/world.h"

namespace frugal::engine {
namespace {

using namespace nccl;  // NOLINT: what is below is NCCL's, in the engine's namespace

/// Peers that are processes: the world tells them of failures.
class ProcessPeers final : public NcclPeers {
 public:
  ProcessPeers(World& world, int size, const ncclUniqueId& id, CudaDevice& device)
      : world_(world), size_(size), id_(id), link_(device, [&world] { world.check(); }) {}
  ~ProcessPeers() override { finish({&link_}, world_.deadline()); }

  int size() const override { return size_; }
  double deadline() const override { return world_.deadline(); }
  const ncclUniqueId& id() const override { return id_; }
  void check() override { world_.check(); }
  /// Tells the world first: whoever hears of the failure ends its links, and NCCL reports that to
  /// others.
  void fail(const std::exception_ptr& error) noexcept override {
    world_.fail(failure_of(error, world_.rank()));
    link_.stop();
  }
  void abort(const std::string& /*reason*/) noexcept override { link_.stop(); }

  NcclLink& link() { return link_; }

 private:
  World& world_;
  const int size_;
  const ncclUniqueId id_;
  NcclLink link_;
};

class NcclProcessGroup final : public Group {
 public:
  NcclProcessGroup(World& world, int size, const ncclUniqueId& id, const NcclPlace& place)
      : peers_(world, size, id, place.device),
        communicator_(make_communicator(peers_, peers_.link(), place)) {}

  int size() const override { return peers_.size(); }
  Communicator& communicator(int /*rank*/) override { return *communicator_; }
  void reset() override {}  // a world that has failed has ended

 private:
  ProcessPeers peers_;
  const std::unique_ptr<Communicator> communicator_;
};

/// Id made by the group's first rank; all processes learn it.
ncclUniqueId id_of_group(World& world, int first) {
  ncclUniqueId id{};
  std::string mine;
  if (world.rank() == first) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    mine.assign(reinterpret_cast<const char*>(&id), sizeof id);
  }
  const std::string all = world.exchange(mine).at(static_cast<size_t>(first));
  std::memcpy(&id, all.data(), std::min(all.size(), sizeof id));
  return id;
}

}  // namespace

std::unique_ptr<Group> make_nccl_process_group(World& world, const std::vector<int>& ranks,
                                               Device& device, const NcclProcess& own) {
  const auto place = std::find(ranks.begin(), ranks.end(), world.rank());
  const ncclUniqueId id = id_of_group(world, ranks.front());
  if (place == ranks.end()) return nullptr;
  if (ranks.size() == 1) return alone_on(device);
  return std::make_unique<NcclProcessGroup>(
      world, static_cast<int>(ranks.size()), id,
      NcclPlace{.rank = static_cast<int>(place - ranks.begin()),
                .device = dynamic_cast<CudaDevice&>(device),
                .stream = device.stream(own.stream),
                .messages = own.messages,
                .activity = &world.activity(),
                .group = own.name});
}

}  // namespace frugal::engine
