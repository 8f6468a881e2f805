#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/groups.h"
#include "engine/comm/local.h"
#include "kernels/device.h"

/// NCCL, which carries collectives between GPUs. Nothing of NCCL's own is needed to include this:
/// engine/comm/nccl/no_nccl.cpp implements it where the program is built without.
namespace frugal::engine {

/// Reason that this build cannot run several ranks on GPUs; empty if it has NCCL.
std::string why_no_nccl();

/// Version of NCCL, as it was loaded: "2.27.3"; empty in a build without it.
std::string nccl_version();

/// True if NCCL is told that ranks may share a GPU: NCCL_MULTI_RANK_GPU_ENABLE=1, an experiment of
/// NCCL's. What such ranks compute is right; their times say nothing of GPUs apart.
bool ranks_may_share_gpus();
/// Reason that the loaded NCCL lets no ranks share a GPU, whatever it is told; empty if it does.
std::string why_no_shared_gpus();
/// GPU of rank `rank` of a process that has so many, from the first on: as many ranks as GPUs have
/// one each, more take turns.
constexpr int gpu_of_rank(int rank, int first, int gpus) { return first + rank % gpus; }

/// Blocks of a kernel of NCCL's, at most: of a group's collectives, and of a group that is for
/// messages. Kernels that wait for other ranks hold their multiprocessors. Where ranks launch them
/// in different orders, as stages of a pipeline do, all that may wait at a time must fit beside
/// each other, or none ends: five groups with collectives and six directions of messages fit on an
/// A100, which has 108 multiprocessors.
inline constexpr int collective_blocks = 16, message_blocks = 4;
static_assert(5 * collective_blocks + 6 * message_blocks <= 108);
/// Blocks of either kind where ranks may share a GPU, so that those of two ranks fit.
inline constexpr int shared_blocks = 4;
static_assert(2 * (5 + 6) * shared_blocks <= 108);
constexpr int nccl_blocks(MessagesTo messages) {
  return messages == MessagesTo::nobody ? collective_blocks : message_blocks;
}
/// Blocks that this process's communicators have.
inline int blocks_here(MessagesTo messages) {
  return ranks_may_share_gpus() ? shared_blocks : nccl_blocks(messages);
}
/// Bytes of a GPU that a communicator of so many blocks takes, at most, whose rank exchanges
/// messages with so many others besides its collectives. By NCCL's source (2.28: init.cc,
/// transport/p2p.cc, transport/nvls.cc) a connection has 4 MiB for the simple protocol, 4.7 for
/// LL128 and 0.5 for LL, in pages of 2 MiB on both sides: 12 MiB. A block has a connection of the
/// ring, two of the tree, and of NVLink's switches 2 MiB for each of up to eight GPUs. A block of
/// messages has a connection on either side.
constexpr int64_t nccl_memory(MessagesTo messages, int blocks, int exchanging = 0) {
  constexpr int64_t mebibyte = int64_t{1} << 20, connection = 12 * mebibyte;
  return blocks * (messages == MessagesTo::nobody ? (3 + exchanging) * connection + 16 * mebibyte
                                                  : 2 * connection);
}

/// A group of ranks on CUDA devices, rank r on devices[r]; the devices outlive it. Its
/// communicators are made when the ranks first use them, waiting for each other: ranks that are in
/// several groups first use them in the same order, if only for a barrier.
/// So are the connections of messages between neighbours, to the next rank or to the previous one.
/// Others are made by the first message, for which the threads of both ranks wait.
/// Collectives and messages of rank r are issued to stream r of `streams`, which ranks take by
/// turns, and end there; when one of them fails, or does not end within `deadline` seconds, each
/// rank learns it the next time it starts one or waits for its device. Groups that share devices
/// have streams of their own where they must not wait for each other.
///
/// Throws InputError where the build has no NCCL.
std::unique_ptr<Group> make_nccl_group(const std::vector<Device*>& devices,
                                       double deadline = LocalGroup::default_deadline,
                                       const std::vector<StreamSpec>& streams = {streams::tensors},
                                       MessagesTo messages = MessagesTo::nobody);

class World;

/// Part of a process in a group of processes.
struct NcclProcess {
  std::string_view name = {};  ///< the group's, for messages: "tensor"
  StreamSpec stream = streams::tensors;
  MessagesTo messages = MessagesTo::nobody;
};
/// Makes a group of ranks that are processes of a world; `device` is this one's. All processes of
/// the world call it, equally often and in the same order, each with the ranks of a group. The
/// first of these says how they connect. A group has one communicator here, this process's; null
/// where it is in none of these ranks. The world's deadline holds, and its failures are thrown.
/// Before a group ends, its ranks must all have done what they do with it.
std::unique_ptr<Group> make_nccl_process_group(World& world, const std::vector<int>& ranks,
                                               Device& device, const NcclProcess& own);

}  // namespace frugal::engine
