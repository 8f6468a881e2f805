#pragma once
#include <nccl.h>

#include <functional>
#include <mutex>

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
/// thread may end it.
class NcclLink {
 public:
  /// `throw_if_failed` throws once the group has failed, before which nobody calls stop().
  NcclLink(CudaDevice& device, std::function<void()> throw_if_failed)
      : device_(device), throw_if_failed_(std::move(throw_if_failed)) {}
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  ~NcclLink() { stop(); }

  bool is_open();
  /// Begins to make the communicator; it is there when settled() says so.
  void open(const ncclUniqueId& id, int rank, int size);
  /// Whether NCCL has done what it was asked for. Throws CudaError for what it reports otherwise.
  bool settled();
  /// Calls issue(communicator), a call of NCCL named `call`. The calls before have settled.
  void use(const char* call, const std::function<ncclResult_t(ncclComm_t)>& issue);
  /// Ends the communicator, and what the device still does for it. May wait until the links of the
  /// group's other ranks are stopped too.
  void stop() noexcept;

 private:
  CudaDevice& device_;
  const std::function<void()> throw_if_failed_;
  std::mutex mutex_;  // guards comm_
  ncclComm_t comm_ = nullptr;
};

}  // namespace frugal::engine::nccl
