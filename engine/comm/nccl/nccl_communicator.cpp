#include "engine/comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "engine/comm/communicator.h"
#include "engine/comm/nccl/nccl.h"
#include "engine/comm/nccl/watch.h"
#include "kernels/cuda/error.h"
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

void NcclLink::use(const std::function<Issued(ncclComm_t)>& issue) {
  const std::lock_guard lock(mutex_);
  throw_if_failed_();
  const Issued issued = issue(comm_);
  check(issued.result, issued.call, comm_);
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

namespace frugal::engine {
namespace {

using namespace nccl;  // NOLINT: what is below is NCCL's, in the engine's namespace

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::u8:
      return ncclUint8;
    case DType::i32:
      return ncclInt32;
  }
  throw std::logic_error("nccl_type: no such type");
}

size_t count(const View& view) { return static_cast<size_t>(view.size()); }

/// The moment at which a stream has done what was issued to it so far. An event of its own: those
/// of Device::record() are for waits that follow soon.
class Moment {
 public:
  explicit Moment(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    const cudaError_t recorded = cudaEventRecord(event_, stream);
    if (recorded != cudaSuccess) (void)cudaEventDestroy(event_);
    check(recorded, "cudaEventRecord");
  }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  ~Moment() { (void)cudaEventDestroy(event_); }

  bool passed() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "cudaEventQuery");
    return true;
  }
  void hold(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclWork final : public Pending::Work {
 public:
  NcclWork(NcclPeers& peers, CudaDevice& device, std::shared_ptr<const Moment> end)
      : peers_(peers), device_(device), end_(std::move(end)) {}
  void wait() override {
    peers_.check();
    end_->hold(device_.cuda_stream(Stream::compute));
  }

 private:
  NcclPeers& peers_;
  CudaDevice& device_;
  const std::shared_ptr<const Moment> end_;
};

/// A float on the device.
class OneElement {
 public:
  explicit OneElement(CudaDevice& device) : OneElement(device, device.allocate(sizeof zero)) {
    device_.copy_from_host(view_, &zero);
  }
  OneElement(const OneElement&) = delete;
  OneElement& operator=(const OneElement&) = delete;
  ~OneElement() { device_.deallocate(view_.data, sizeof zero); }

  const View& view() const { return view_; }

 private:
  OneElement(CudaDevice& device, void* address)
      : device_(device), view_(address, DType::f32, {1}) {}

  static constexpr float zero = 0;
  CudaDevice& device_;
  const View view_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclPeers& peers, NcclLink& link, const NcclPlace& place)
      : peers_(peers),
        device_(place.device),
        stream_(place.stream),
        messages_(place.messages),
        link_(link),
        rank_(place.rank),
        watch_(rank_, peers.deadline(),
               {.throw_if_failed = [&peers] { peers.check(); },
                .throw_if_broken = [this] { (void)link_.settled(); },
                .fail = [&peers](const std::exception_ptr& error) { peers.fail(error); },
                .now = [this] { return device_.now(); },
                .activity = place.activity,
                .group = place.group}) {
    device_.add_watch(this, [this] { watch_.check(); });
  }
  ~NcclCommunicator() override { device_.remove_watch(this); }

  int rank() const override { return rank_; }
  int size() const override { return peers_.size(); }

  /// Waits for the device, too.
  void barrier() override {
    device_.make_current();
    connect();
    device_.synchronize();
    const OneElement all_are_here(device_);
    all_reduce(all_are_here.view()).wait();
    device_.synchronize();
  }
  void abort(const std::string& reason) noexcept override { peers_.abort(reason); }

 private:
  /// Issues a call of NCCL behind what was computed so far.
  Pending begin(const Call& call) override {
    device_.make_current();
    connect();
    device_.stay_near();
    device_.wait(stream_, device_.record(Stream::compute));
    auto* const stream = device_.cuda_stream(stream_);
    const auto begin = watch_.notes() ? std::make_shared<const Moment>(stream) : nullptr;
    link_.use([&](ncclComm_t comm) { return issue(call, comm, stream); });
    // Only then has it been issued to the stream.
    const Watch::Call watched{name_of(call.kind), call.from};
    watch_.until(watched, [this] { return link_.settled(); });
    const auto end = std::make_shared<const Moment>(stream);
    watch_.started(
        watched, [end] { return end->passed(); }, [begin] { return begin && begin->passed(); });
    return Pending(std::make_unique<NcclWork>(peers_, device_, end));
  }

  /// All ranks come here before their first collective, each in a thread of its own.
  void connect() {
    if (link_.is_open()) return;
    link_.open(peers_.id(), rank_, size(), blocks_here(messages_));
    watch_.until({"connecting the ranks", {}}, [this] { return link_.settled(); });
    if (messages_ != MessagesTo::nobody) meet_neighbours();
  }
  /// The first message between two ranks waits for both, and their schedules may not have them
  /// meet.
  void meet_neighbours() {
    const OneElement element(device_);
    const View& token = element.view();
    const int step = messages_ == MessagesTo::next ? 1 : -1;
    const auto is_there = [this](int rank) { return rank >= 0 && rank < size(); };
    if (is_there(rank_ - step)) receive(token, rank_ - step).wait();
    if (is_there(rank_ + step)) send(token, rank_ + step).wait();
    device_.synchronize();
  }

  NcclLink::Issued issue(const Call& call, ncclComm_t comm, cudaStream_t stream) const {
    const auto& [kind, from, to, peer] = call;
    const ncclDataType_t type = nccl_type(from.type);
    switch (kind) {
      case Call::Kind::all_reduce:
        return {"ncclAllReduce",
                ncclAllReduce(from.data, to.data, count(to), type, ncclSum, comm, stream)};
      case Call::Kind::all_gather:
        return {"ncclAllGather",
                ncclAllGather(from.data, to.data, count(from), type, comm, stream)};
      case Call::Kind::reduce_scatter:
        return {"ncclReduceScatter",
                ncclReduceScatter(from.data, to.data, count(to), type, ncclSum, comm, stream)};
      case Call::Kind::broadcast:
        return {"ncclBroadcast",
                ncclBroadcast(from.data, to.data, count(to), type, peer, comm, stream)};
      case Call::Kind::send:
        return {"ncclSend", issue_send(from, peer, comm, stream)};
      case Call::Kind::receive:
        return {"ncclRecv", issue_receive(to, peer, comm, stream)};
      default:
        return {"ncclGroupEnd",
                together([&](const auto& add) { exchange(call, add, comm, stream); })};
    }
  }
  /// Sends and receives parts of an all-to-all, or the whole of a shift.
  template <class Add>
  void exchange(const Call& call, const Add& add, ncclComm_t comm, cudaStream_t stream) const {
    if (call.kind == Call::Kind::shift) {
      add(issue_send(call.from, (rank_ + 1) % size(), comm, stream));
      add(issue_receive(call.to, (rank_ + size() - 1) % size(), comm, stream));
      return;
    }
    for (int peer = 0; peer < size(); ++peer) {
      add(issue_send(part_of(call.from, peer, size()), peer, comm, stream));
      add(issue_receive(part_of(call.to, peer, size()), peer, comm, stream));
    }
  }
  static ncclResult_t issue_send(const View& data, int to, ncclComm_t comm, cudaStream_t stream) {
    return ncclSend(data.data, count(data), nccl_type(data.type), to, comm, stream);
  }
  static ncclResult_t issue_receive(const View& data, int from, ncclComm_t comm,
                                    cudaStream_t stream) {
    return ncclRecv(data.data, count(data), nccl_type(data.type), from, comm, stream);
  }

  /// The calls that `calls` adds, as one. A group of calls that has begun must end, whatever
  /// happens in it.
  template <class Calls>
  static ncclResult_t together(const Calls& calls) {
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    const auto add = [&](ncclResult_t next) {
      if (result == ncclSuccess || result == ncclInProgress) result = next;
    };
    calls(add);
    add(ncclGroupEnd());
    return result;
  }

  NcclPeers& peers_;
  CudaDevice& device_;
  const Stream stream_;
  const MessagesTo messages_;
  NcclLink& link_;
  const int rank_;
  Watch watch_;
};

}  // namespace

std::unique_ptr<Communicator> nccl::make_communicator(NcclPeers& peers, NcclLink& link,
                                                      const NcclPlace& place) {
  return std::make_unique<NcclCommunicator>(peers, link, place);
}

}  // namespace frugal::engine
