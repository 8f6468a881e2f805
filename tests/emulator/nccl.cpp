#include "tests/emulator/nccl.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/emulator/arena.h"
#include "tests/emulator/meeting.h"

using emulator::Call;
using emulator::Joint;
using emulator::Member;
using emulator::Part;
using frugal::kernels::DType;

namespace {

int alive = 0, ended_by_abort = 0, broken = -1;

/// Memory that communicators which have ended still hold, by the file in which their ranks met.
std::multimap<std::string, void*> held;

void give_back(const std::string& file) {
  for (auto [first, last] = held.equal_range(file); first != last; first = held.erase(first))
    emulator::arena::release(first->second);
}

/// Calls of this thread since ncclGroupStart().
struct Together {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Member::Step> steps;
  bool failed = false;
};
thread_local int depth = 0;
thread_local Together together;

DType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return DType::u8;
    case ncclInt32:
      return DType::i32;
    case ncclFloat64:
      return DType::f64;
    case ncclBfloat16:
      return DType::bf16;
    case ncclFloat32:
      return DType::f32;
  }
  return DType::f32;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Member> member;
  int rank = 0, gpu = 0;
  std::string file = {};  // in which the ranks meet
  void* memory = nullptr;
  bool finalizing = false;
  bool ready = false;  // it has said so
  int polls = 0;       // until what was asked for may be issued
  cudaStream_t stream = nullptr;
  std::vector<Member::Step> asked = {};

  ncclResult_t ask(cudaStream_t on, std::vector<Member::Step> steps) {
    const Call call;
    if (!ready || finalizing || !asked.empty() || emulator::current_gpu() != gpu ||
        !emulator::is_current(on))
      return ncclInvalidUsage;  // what was called before has not settled, or another GPU's stream
    polls = 3;
    stream = on;
    asked = std::move(steps);
    member->call(asked);
    return ncclInProgress;
  }
  /// True if nothing is in progress any more.
  bool settled() {
    if (polls > 0) --polls;
    if (!asked.empty() && polls == 0 && member->connected(asked))
      member->issue(stream, std::exchange(asked, {}));
    ready = member->complete();
    return ready && asked.empty() && (!finalizing || (polls == 0 && member->finalized()));
  }
  /// True if so many elements are memory of this rank's GPU.
  bool holds(const void* data, int64_t count, DType type) const {
    return emulator::arena::contains(data, static_cast<size_t>(count * size_of(type)), gpu);
  }
  ncclResult_t collective(const Part& part, cudaStream_t stream) {
    const Call call;
    if (depth > 0) return ncclInvalidUsage;  // the library can do that, and this cannot
    const int64_t ranks = member->size();
    const int64_t in = part.joint == Joint::reduce_scatter ? part.count * ranks : part.count;
    const int64_t out = part.joint == Joint::all_gather ? part.count * ranks : part.count;
    if (!holds(part.from, in, part.type) || !holds(part.to, out, part.type))
      return ncclInvalidArgument;
    return ask(stream, {{Member::everybody, rank, part}});
  }
  ncclResult_t message(const Member::Step& step, cudaStream_t stream) {
    const Call call;
    const Part& part = step.part;
    const int peer = step.place == 0 ? step.between.second : step.between.first;
    if (peer < 0 || peer >= member->size() ||
        !holds(part.to == nullptr ? part.from : part.to, part.count, part.type)) {
      together.failed = depth > 0;
      return ncclInvalidArgument;
    }
    if (depth == 0) return ask(stream, {step});
    if (together.comm != nullptr && (together.comm != this || together.stream != stream)) {
      together.failed = true;
      return ncclInvalidUsage;  // the library can do that, and this cannot
    }
    together.comm = this;
    together.stream = stream;
    together.steps.push_back(step);
    return ncclSuccess;
  }
};

ncclResult_t ncclGetVersion(int* version) {
  *version = emulator::gpu().nccl_version;
  return *version == 0 ? ncclSystemError : ncclSuccess;  // it is none
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidArgument      ? "invalid argument"
         : result == ncclInvalidUsage       ? "invalid usage"
         : result == ncclUnhandledCudaError ? "unhandled cuda error"
         : result == ncclRemoteError        ? "remote process exited or there was a network error"
                                            : "internal error";
}
const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr && comm->memory == nullptr ? "Failed to CUDA calloc 1048576 bytes"
                                                    : "a link went down";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Call call;
  std::random_device random;
  const auto folder = std::filesystem::temp_directory_path();
  const auto file =
      fmt::format("{}/frugal-emulated-nccl-{:08x}{:08x}", folder.string(), random(), random());
  if (file.size() >= sizeof id->file) return ncclSystemError;
  *id = {};
  file.copy(id->file, file.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Call call;
  if (config->blocking != 0 || ranks > emulator::most_gpus) return ncclInvalidArgument;
  const int gpu = emulator::current_gpu();
  auto member = std::make_shared<Member>(id.file, rank, ranks, gpu, config->maxCTAs);
  if (!member->join()) return ncclInvalidUsage;
  ++alive;
  void* const memory = emulator::arena::allocate(
      gpu, static_cast<size_t>(config->maxCTAs * emulator::gpu().nccl_memory));
  *comm = new ncclComm{
      .member = std::move(member), .rank = rank, .gpu = gpu, .file = id.file, .memory = memory};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const Call call;
  const bool settled = comm->settled();
  *state = comm->memory == nullptr ? ncclUnhandledCudaError
           : comm->rank == broken  ? ncclInternalError
           : comm->member->lost()  ? ncclRemoteError
           : settled               ? ncclSuccess
                                   : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const Call call;
  if (!comm->settled() || comm->finalizing) return ncclInvalidArgument;
  comm->finalizing = true;
  comm->polls = 3;
  comm->member->finalize();
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const Call call;
  if (!comm->finalizing || !comm->settled()) return ncclInvalidUsage;  // the library may wait here
  comm->member->leave();
  --alive;
  held.emplace(comm->file, comm->memory);
  if (comm->member->left()) give_back(comm->file);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  constexpr int until_it_is_over = 200;
  const Call call;
  const auto member = comm->member;
  member->abort();
  member->leave();
  --alive;
  ++ended_by_abort;
  if (comm->memory != nullptr) held.emplace(comm->file, comm->memory);
  while (!member->left()) Call::pause();
  Call::after(until_it_is_over, [file = comm->file] { give_back(file); });
  delete comm;
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  Together calls = std::exchange(together, {});
  if (calls.failed) return ncclInvalidUsage;
  return calls.comm == nullptr ? ncclSuccess
                               : calls.comm->ask(calls.stream, std::move(calls.steps));
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t /*op*/, ncclComm_t comm, cudaStream_t stream) {
  return comm->collective({Joint::all_reduce, from, to, static_cast<int64_t>(count), type_of(type)},
                          stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return comm->collective({Joint::all_gather, from, to, static_cast<int64_t>(count), type_of(type)},
                          stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t /*op*/, ncclComm_t comm, cudaStream_t stream) {
  return comm->collective(
      {Joint::reduce_scatter, from, to, static_cast<int64_t>(count), type_of(type)}, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return comm->collective(
      {Joint::broadcast, from, to, static_cast<int64_t>(count), type_of(type), root}, stream);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  const Part part{Joint::message, data, nullptr, static_cast<int64_t>(count), type_of(type)};
  return comm->message({{comm->rank, to}, 0, part}, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  const Part part{Joint::message, nullptr, data, static_cast<int64_t>(count), type_of(type)};
  return comm->message({{from, comm->rank}, 1, part}, stream);
}

namespace emulator::nccl {

void break_rank(int rank) {
  const Call call;
  broken = rank;
}
void repair() { break_rank(-1); }
int communicators() {
  const Call call;
  return alive;
}
int aborted() {
  const Call call;
  return ended_by_abort;
}

}  // namespace emulator::nccl
