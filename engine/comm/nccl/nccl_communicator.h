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

/// Channel between the ranks of a group beside NCCL: by it they learn how to connect, and tell each
/// other that one has failed.
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
  /// Tells the others that this rank has failed, and ends what is under way here.
  virtual void fail(const std::exception_ptr& error) noexcept = 0;
  /// Like fail(), for a caller that tells the ranks of other processes itself.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// One rank of a group.
struct NcclPlace {
  int rank;
  CudaDevice& device;
  Stream stream;  ///< to which everything is issued
  MessagesTo messages;
  /// Notes what the device waits for in the group of this name; null: notes nothing.
  Activity* activity = nullptr;
  std::string_view group = {};
};

/// Communicator of a rank by NCCL.
std::unique_ptr<Communicator> make_communicator(NcclPeers& peers, NcclLink& link,
                                                const NcclPlace& place);

}  // namespace frugal::engine::nccl
