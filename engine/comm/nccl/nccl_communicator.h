#pragma once
#include <nccl.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/activity.h"
#include "engine/comm/communicator.h"
#include "engine/comm/nccl/nccl.h"
#include "engine/namespace.h"
#include "kernels/cuda/device.h"

namespace frugal::engine::nccl {

using namespace kernels::cuda;  // NOLINT: a link is of one of its devices
using cuda::check;              // beside the one of NCCL's calls

/// Throws CudaError unless the call succeeded or is in progress, or PeerLost where that is what
/// NCCL says; `call` is its name: "ncclSend", `comm` the communicator it was about, if there is
/// one.
void check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr,
           const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// One rank's communicator of NCCL, non-blocking: no call of NCCL waits for other ranks here. Any
/// thread may end it. Before it goes it has been ended, by finish() or stop().
class NcclLink {
 public:
  /// `throw_if_failed` throws once the group has failed, before which nobody calls stop().
  NcclLink(CudaDevice& device, std::function<void()> throw_if_failed)
      : device_(device), throw_if_failed_(std::move(throw_if_failed)) {}
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  ~NcclLink() = default;

  bool is_open();
  /// Begins to make the communicator, whose kernels have so many blocks at most; it is there when
  /// settled() says so.
  void open(const ncclUniqueId& id, int rank, int size, int blocks);
  /// True if NCCL has done what it was asked for. Throws CudaError for an error that it reports, or
  /// OutOfMemory if the GPU has no room for what it takes.
  bool settled();
  /// A call of NCCL, and what it returned.
  struct Issued {
    const char* call;
    ncclResult_t result;
  };
  /// Calls issue(communicator). The calls before have settled.
  void use(const std::function<Issued(ncclComm_t)>& issue);
  /// Aborts the communicator, and what the device still does for it, after a failure. May wait
  /// until the links of the group's other ranks are stopped too.
  void stop() noexcept;

 private:
  friend void finish(const std::vector<NcclLink*>& links, double deadline) noexcept;
  /// Begins to end it.
  void finalize() noexcept;
  /// True if it is finalized, or cannot be: then only stop() ends it.
  bool finalized() noexcept;
  /// Ends it, where it is finalized.
  void destroy() noexcept;
  CudaDevice& device_;
  const std::function<void()> throw_if_failed_;
  std::mutex mutex_;  // guards what follows
  ncclComm_t comm_ = nullptr;
  bool finalizing_ = false;
};

/// Ends the links of a group that are in this process, when nobody uses them any more: all that was
/// issued ends, all ranks say that they are done, and the memory that NCCL took has been given back
/// when this returns. What cannot be ended so within the deadline, in seconds, is stopped.
void finish(const std::vector<NcclLink*>& links, double deadline) noexcept;
/// NcclLink::stop() of all, each in a thread of its own: one may wait for the others.
void stop(const std::vector<NcclLink*>& links) noexcept;

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
