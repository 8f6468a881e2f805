#include "engine/comm/nccl/nccl_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>

#include "engine/comm/nccl/nccl.h"
#include "kernels/support/bytes.h"
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

/// True if NCCL's message says that the GPU had no room: "Cuda failure 2 'out of memory'", "Failed
/// to CUDA calloc 4194304 bytes".
bool tells_of_memory(std::string_view said) {
  return said.find("out of memory") != std::string_view::npos ||
         said.find("alloc") != std::string_view::npos;
}

[[noreturn]] void refuse(const char* call, std::string_view said) {
  size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const auto there = static_cast<int64_t>(free), all = static_cast<int64_t>(total);
  const int64_t most = nccl_memory(MessagesTo::nobody, blocks_here(MessagesTo::nobody));
  throw OutOfMemory(
      fmt::format("cuda: out of memory for NCCL's own buffers ({}: {}; {} of {} free, and a "
                  "communicator takes up to {})",
                  call, said, bytes_in_words(there), bytes_in_words(all), bytes_in_words(most)),
      most, all - there, all);
}

}  // namespace

void check(ncclResult_t result, const char* call, ncclComm_t comm, const char* file, int line) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string_view said = ncclGetLastError(comm);
  const std::string text = fmt::format("{} at {}: {} ({}); {}", call, place(file, line),
                                       ncclGetErrorString(result), said, next_step(result));
  if (result == ncclRemoteError) throw PeerLost(text);
  if (result == ncclUnhandledCudaError && tells_of_memory(said)) refuse(call, said);
  throw CudaError(text);
}

bool NcclLink::is_open() {
  const std::lock_guard lock(mutex_);
  return comm_ != nullptr;
}

void NcclLink::open(const ncclUniqueId& id, int rank, int size, int blocks) {
  const std::lock_guard lock(mutex_);
  throw_if_failed_();
  device_.make_current();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = blocks;
  finalizing_ = false;
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
  // There is nobody to tell of an error, and no way to ask whether it has ended: before 2.25 a
  // thread of NCCL's may still give its memory back when this returns.
  (void)ncclCommAbort(comm_);
  comm_ = nullptr;
}

void NcclLink::finalize() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  try {
    throw_if_failed_();
    device_.make_current();
    check(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
    finalizing_ = true;
  } catch (const std::exception&) {  // stop() is left, which who waits does
  }
}

bool NcclLink::finalized() noexcept {
  if (!finalizing_) return true;
  try {
    throw_if_failed_();
    return settled();
  } catch (const std::exception&) {
    finalizing_ = false;
    return true;
  }
}

void NcclLink::destroy() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || !finalizing_) return;
  if (ncclCommDestroy(comm_) == ncclSuccess) comm_ = nullptr;
}

void stop(const std::vector<NcclLink*>& links) noexcept {
  std::vector<std::jthread> threads;
  for (NcclLink* const link : links) threads.emplace_back([link] { link->stop(); });
}

void finish(const std::vector<NcclLink*>& links, double deadline) noexcept {
  using std::chrono::steady_clock;
  if (std::uncaught_exceptions() == 0) {
    for (NcclLink* const link : links) link->finalize();
    const auto until = steady_clock::now() + std::chrono::duration<double>(deadline);
    const auto waits = [](NcclLink* link) { return !link->finalized(); };
    while (std::any_of(links.begin(), links.end(), waits) && steady_clock::now() < until)
      std::this_thread::yield();
    for (NcclLink* const link : links)
      if (link->finalized()) link->destroy();
  }
  stop(links);
}

}  // namespace frugal::engine::nccl
