#include "engine/comm/nccl/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "engine/comm/failure.h"
#include "engine/comm/modelled.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/processes/world.h"
#include "kernels/support/version.h"

namespace frugal::engine {
namespace {

using namespace nccl;  // NOLINT: what is below is NCCL's, in the engine's namespace

/// Peers that are threads of this process.
class ThreadPeers final : public NcclPeers {
 public:
  ThreadPeers(int size, double deadline) : deadline_(deadline), local_(size, deadline) {
    make_id();
  }
  ~ThreadPeers() override { finish(links(), deadline_); }

  int size() const override { return local_.size(); }
  double deadline() const override { return deadline_; }
  const ncclUniqueId& id() const override { return id_; }
  void check() override { local_.check(); }
  void fail(const std::exception_ptr& error) noexcept override {
    abort(failure_of(error, -1).reason);
  }
  void abort(const std::string& reason) noexcept override {
    local_.communicator(0).abort(reason);  // the first reason counts
    failed_ = true;
    stop(links());
  }

  NcclLink& add_link(CudaDevice& device) {
    return *links_.emplace_back(std::make_unique<NcclLink>(device, [this] { check(); }));
  }
  void reset() {
    local_.reset();
    if (failed_.exchange(false)) make_id();
  }

 private:
  void make_id() { nccl::check(ncclGetUniqueId(&id_), "ncclGetUniqueId"); }
  /// The links of a group end together: NCCL frees memory that the other ranks may still use.
  std::vector<NcclLink*> links() const {
    std::vector<NcclLink*> all;
    for (const auto& link : links_) all.push_back(link.get());
    return all;
  }

  const double deadline_;
  LocalGroup local_;  ///< where the threads learn of failures
  std::vector<std::unique_ptr<NcclLink>> links_;
  ncclUniqueId id_{};
  std::atomic<bool> failed_{false};
};

class NcclGroup final : public Group {
 public:
  NcclGroup(const std::vector<Device*>& devices, double deadline,
            const std::vector<StreamSpec>& streams, MessagesTo messages)
      : peers_(static_cast<int>(devices.size()), deadline) {
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      auto& gpu = dynamic_cast<CudaDevice&>(*devices[rank]);
      communicators_.push_back(
          make_communicator(peers_, peers_.add_link(gpu),
                            {.rank = static_cast<int>(rank),
                             .device = gpu,
                             .stream = gpu.stream(streams.at(rank % streams.size())),
                             .messages = messages}));
    }
  }

  ~NcclGroup() override { communicators_.clear(); }  // before their links
  void reset() override { peers_.reset(); }

 private:
  ThreadPeers peers_;
};

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
      : peers_(world, size, id, place.device) {
    communicators_.push_back(make_communicator(peers_, peers_.link(), place));
  }
  ~NcclProcessGroup() override { communicators_.clear(); }  // before their link

 private:
  ProcessPeers peers_;
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

/// NCCL's, as it counts: 23007 of 2.30.7.
std::optional<size_t> loaded_version() {
  int number = 0;
  if (ncclGetVersion(&number) != ncclSuccess) return std::nullopt;
  return static_cast<size_t>(number);
}

}  // namespace

std::string why_no_nccl() { return ""; }

std::string nccl_version() {
  const auto number = loaded_version();
  return number ? library_version(*number) : "";
}

bool ranks_may_share_gpus() {
  const char* const told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return told != nullptr && std::strtol(told, nullptr, 0) != 0;  // as NCCL reads it
}

std::string why_no_shared_gpus() {
  constexpr size_t first = 23000;  // NCCL 2.30
  const auto number = loaded_version();
  if (!number || *number >= first) return "";
  return fmt::format(
      "NCCL_MULTI_RANK_GPU_ENABLE has ranks share a GPU, and NCCL {}, which was loaded, cannot; "
      "name the library of NCCL 2.30 or later in LD_PRELOAD (scripts/nccl.sh builds one)",
      library_version(*number));
}

std::unique_ptr<Group> make_nccl_group(const std::vector<Device*>& devices, double deadline,
                                       const std::vector<StreamSpec>& streams,
                                       MessagesTo messages) {
  return std::make_unique<NcclGroup>(devices, deadline, streams, messages);
}

std::unique_ptr<Group> make_nccl_process_group(World& world, const std::vector<int>& ranks,
                                               Device& device, const NcclProcess& own) {
  const auto place = std::ranges::find(ranks, world.rank());
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
