#include <nccl.h>

#include <map>
#include <utility>
#include <vector>

#include "engine/comm/local.h"
#include "kernels/support/error.h"

using frugal::Communicator;
using frugal::DType;
using frugal::View;

namespace {

struct Clique {
  explicit Clique(int size) : group(size, 3600), receipts(size, 3600) {}
  frugal::LocalGroup group;
  frugal::LocalGroup receipts;  // for senders, whose streams are held until they are received
  int here = 0, aborted = 0;
};

/// What one rank's communicators carry.
struct Carriers {
  Communicator &data, &receipts;
};
using Work = std::function<void(const Carriers&)>;
using Collective = std::function<void(Communicator&)>;

std::mutex mutex;  // guards everything below, and all cliques
std::condition_variable changed;
std::map<int, std::shared_ptr<Clique>> cliques;
int ids = 0, alive = 0, broken = -1;

thread_local int depth = 0;
struct Collected {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Collective> sends, receives;
};
thread_local Collected collected;

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
    default:
      return DType::f32;
  }
}

View view(const void* data, size_t count, ncclDataType_t type) {
  return {const_cast<void*>(data), type_of(type), {static_cast<int64_t>(count)}};
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int polls = 0;  // until what was asked for is issued
  std::function<void()> asked;

  ncclResult_t ask(cudaStream_t stream, const Collective& collective) {
    return ask_for(stream, [collective](const Carriers& carriers) { collective(carriers.data); });
  }
  ncclResult_t ask_for(cudaStream_t stream, Work work) {
    const std::lock_guard lock(mutex);
    if (asked) return ncclInvalidUsage;  // the call before has not settled
    polls = 3;
    asked = [stream, work = std::move(work), clique = clique, rank = rank] {
      stream->push([work, clique, rank] {
        try {
          work({clique->group.communicator(rank), clique->receipts.communicator(rank)});
        } catch (const frugal::PeerLost&) {  // aborted
        }
      });
    };
    return ncclInProgress;
  }
};

const char* ncclGetErrorString(ncclResult_t) { return "internal error"; }
const char* ncclGetLastError(ncclComm_t) { return "a link went down"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  id->number = ids++;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const std::lock_guard lock(mutex);
  if (config->blocking != 0) return ncclInvalidArgument;
  auto& clique = cliques[id.number];
  if (!clique) clique = std::make_shared<Clique>(ranks);
  ++clique->here;
  ++alive;
  *comm = new ncclComm{clique, rank, 0, {}};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  if (comm->asked && --comm->polls == 0) std::exchange(comm->asked, {})();
  *state = comm->rank == broken                                             ? ncclInternalError
           : comm->asked || comm->clique->here < comm->clique->group.size() ? ncclInProgress
                                                                            : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::unique_lock lock(mutex);
  const auto clique = comm->clique;
  for (auto* group : {&clique->group, &clique->receipts})
    group->communicator(comm->rank).abort("aborted");
  ++clique->aborted;
  --alive;
  changed.notify_all();
  changed.wait(lock, [&] { return clique->aborted == clique->here; });
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  const Collected calls = std::exchange(collected, {});
  return calls.comm->ask(calls.stream, [calls](Communicator& c) {
    for (const auto& work : calls.sends) work(c);
    for (const auto& work : calls.receives) work(c);
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  if (from != to) return ncclInvalidArgument;
  return comm->ask(stream, [=](Communicator& c) { c.all_reduce(view(to, count, type)).wait(); });
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return comm->ask(stream, [=](Communicator& c) {
    const size_t all = count * static_cast<size_t>(c.size());
    c.all_gather(view(from, count, type), view(to, all, type)).wait();
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return comm->ask(stream, [=](Communicator& c) {
    const size_t all = count * static_cast<size_t>(c.size());
    c.reduce_scatter(view(from, all, type), view(to, count, type)).wait();
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (from != to) return ncclInvalidArgument;
  return comm->ask(stream,
                   [=](Communicator& c) { c.broadcast(view(to, count, type), root).wait(); });
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  const auto work = [=](Communicator& c) { c.send(view(data, count, type), to).wait(); };
  if (depth == 0) {
    return comm->ask_for(stream, [=](const Carriers& carriers) {
      work(carriers.data);
      carriers.receipts.receive({}, to).wait();
    });
  }
  collected.comm = comm, collected.stream = stream;
  collected.sends.push_back(work);
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  const auto work = [=](Communicator& c) { c.receive(view(data, count, type), from).wait(); };
  if (depth == 0) {
    return comm->ask_for(stream, [=](const Carriers& carriers) {
      work(carriers.data);
      carriers.receipts.send({}, from).wait();
    });
  }
  collected.comm = comm, collected.stream = stream;
  collected.receives.push_back(work);
  return ncclSuccess;
}

namespace fake_nccl {

void break_rank(int rank) {
  const std::lock_guard lock(mutex);
  broken = rank;
}
void repair() { break_rank(-1); }
int communicators() {
  const std::lock_guard lock(mutex);
  return alive;
}

}  // namespace fake_nccl
