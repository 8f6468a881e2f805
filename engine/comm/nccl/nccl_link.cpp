#include "engine/comm/nccl/nccl_link.h"

#include <fmt/format.h>

#include <exception>

#include "kernels/support/error.h"

namespace frugal::engine::nccl {
namespace {

const char* next_step(ncclResult_t result) {
  switch (result) {
    case ncclUnhandledCudaError:
      return "check with nvidia-smi that no other program fills the GPUs, and run again with "
             "NCCL_DEBUG=WARN to see which call failed";
    case ncclSystemError:
      return "run again with NCCL_DEBUG=WARN to see which call failed; in a container, give it "
             "more "
             "shared memory (/dev/shm)";
    case ncclInvalidUsage:
      return "check that CUDA_VISIBLE_DEVICES names no GPU twice";
    case ncclRemoteError:
      return "another rank's process has ended, or the network between them";
    default:
      return "run again with NCCL_DEBUG=INFO to see what NCCL did last";
  }
}

}  // namespace

void check(ncclResult_t result, const char* call, ncclComm_t comm, const char* file, int line) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string text =
      fmt::format("{} at {}: {} ({}); {}", call, place(file, line), ncclGetErrorString(result),
                  ncclGetLastError(comm), next_step(result));
  if (result == ncclRemoteError) throw PeerLost(text);
  throw CudaError(text);
}

bool NcclLink::is_open() {
  const std::lock_guard lock(mutex_);
  return comm_ != nullptr;
}

void NcclLink::open(const ncclUniqueId& id, int rank, int size) {
  const std::lock_guard lock(mutex_);
  throw_if_failed_();
  device_.make_current();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check(ncclCommInitRankConfig(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
}

bool NcclLink::settled() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return true;
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
  check(state, "ncclCommGetAsyncError", comm_);
  return state != ncclInProgress;
}

void NcclLink::use(const char* call, const std::function<ncclResult_t(ncclComm_t)>& issue) {
  const std::lock_guard lock(mutex_);
  throw_if_failed_();
  check(issue(comm_), call, comm_);
}

void NcclLink::stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  try {
    device_.make_current();
  } catch (const std::exception&) {  // a device that does not answer has ended it already
  }
  // Also where all is well: unlike ncclCommDestroy it does not wait for what is under way. There is
  // nobody to tell of an error.
  (void)ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace frugal::engine::nccl
