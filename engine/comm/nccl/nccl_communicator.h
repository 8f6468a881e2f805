#pragma once
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "engine/comm/activity.h"
#include "engine/comm/communicator.h"
#include "engine/comm/nccl/nccl.h"
#include "engine/comm/nccl/nccl_link.h"

namespace frugal::engine::nccl {

/// What the ranks of a group have beside NCCL: where they learn how to connect, that one of them
/// has failed, and tell it.
class NcclPeers {
 public:
  NcclPeers() = default;
  NcclPeers(const NcclPeers&) = delete;
  NcclPeers& operator=(const NcclPeers&) = delete;
  virtual ~NcclPeers() = default;

  virtual int size() const = 0;
  virtual double deadline() const = 0;
  virtual const ncclUniqueId& id() const = 0;
  /// Throws once a rank has failed.
  virtual void check() = 0;
  /// This rank has failed: tells the others, and ends what is under way here.
  virtual void fail(const std::exception_ptr& error) noexcept = 0;
  /// The same where who calls it tells the ranks of other processes.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// One rank of a group.
struct NcclPlace {
  int rank;
  CudaDevice& device;
  Stream stream;  ///< to which everything is issued
  MessagesTo messages;
  /// Where it notes what its device waits for, for the group of this name; null: nowhere.
  Activity* activity = nullptr;
  std::string_view group = {};
};

/// What a rank says to the others by NCCL.
std::unique_ptr<Communicator> make_communicator(NcclPeers& peers, NcclLink& link,
                                                const NcclPlace& place);

}  // namespace frugal::engine::nccl
