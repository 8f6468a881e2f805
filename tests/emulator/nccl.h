#pragma once
// What engine/comm uses of NCCL, between emulated GPUs of a machine: non-blocking communicators
// only, which issue what they were asked for when they have been polled a few times. A collective
// holds the stream of each rank until all have come to it, and a message those of both. Who waits
// for a process that has ended learns it.
//
// A communicator takes memory of its GPU for each block that it may use, and its blocks hold
// places on the GPU while they wait for other ranks. It is finalized when all ranks have asked for
// it and all that was issued is over, and then destroyed; the last of a process gives the memory of
// all back. All of a process must be aborted for one abort to return, and their memory comes back
// some time later.
#include "tests/emulator/cuda_host.h"

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};
enum ncclRedOp_t { ncclSum = 0 };
namespace emulator::nccl {
/// Blocks of a communicator whose configuration does not say.
constexpr int most_blocks = 32;
}  // namespace emulator::nccl
struct ncclUniqueId {
  char file[128];  ///< which the ranks share
};
struct ncclConfig_t {
  int blocking;
  int maxCTAs;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1, emulator::nccl::most_blocks }
struct ncclComm;
using ncclComm_t = ncclComm*;

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream);

namespace emulator::nccl {
/// Has the communicators of this rank report an error from now on.
void break_rank(int rank);
/// All are whole again.
void repair();
/// Communicators that were made and not yet destroyed or aborted.
int communicators();
/// Number of them that ended by an abort so far.
int aborted();
}  // namespace emulator::nccl
