#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/local.h"
#include "kernels/device.h"

/// NCCL, which carries collectives between GPUs. Nothing of NCCL's own is needed to include this:
/// engine/comm/nccl/no_nccl.cpp implements it where the program is built without.
namespace frugal::engine {

/// Why this build cannot run several ranks on GPUs; empty where it has NCCL.
std::string why_no_nccl();

/// Of NCCL, as it was loaded: "2.27.3"; empty in a build without it.
std::string nccl_version();

/// To whom the ranks of a group send messages, from the first to the last or back.
enum class MessagesTo : uint8_t { nobody, next, previous };

/// A group of ranks on CUDA devices, rank r on devices[r]; the devices outlive it. Its
/// communicators are made when the ranks first use them, waiting for each other: ranks that are in
/// several groups first use them in the same order, if only for a barrier.
/// So are the connections of messages between neighbours, to the next rank or to the previous one.
/// Others are made by the first message, for which the threads of both ranks wait.
/// Collectives and messages are issued to the devices' stream `stream` and end there; when one of
/// them fails, or does not end within `deadline` seconds, each rank learns it the next time it
/// starts one or waits for its device. Groups that share devices have streams of their own where
/// they must not wait for each other.
///
/// Throws InputError where the build has no NCCL.
std::unique_ptr<Group> make_nccl_group(const std::vector<Device*>& devices,
                                       double deadline = LocalGroup::default_deadline,
                                       Stream stream = Stream::communication,
                                       MessagesTo messages = MessagesTo::nobody);
/// The same with a stream for each rank.
std::unique_ptr<Group> make_nccl_group(const std::vector<Device*>& devices, double deadline,
                                       const std::vector<Stream>& streams, MessagesTo messages);

class World;

/// Of a group of processes, what this one has to say.
struct NcclProcess {
  std::string_view name = {};  ///< the group's, for messages: "tensor"
  Stream stream = Stream::communication;
  MessagesTo messages = MessagesTo::nobody;
};
/// The same where ranks are processes of a world, to which this one's `device` belongs: all of the
/// world call it, as often and in the same order, each with the ranks of a group, whose first one
/// says how they connect. A group has one communicator here, this process's; null where it is in
/// none of these ranks. The world's deadline holds, and its failures are thrown. Before a group
/// ends, its ranks must all have done what they do with it.
std::unique_ptr<Group> make_nccl_process_group(World& world, const std::vector<int>& ranks,
                                               Device& device, const NcclProcess& own);

}  // namespace frugal::engine
