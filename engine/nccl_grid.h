#pragma once
#include "engine/comm/message_ring.h"
#include "engine/comm/modelled.h"
#include "engine/comm/nccl.h"
#include "engine/rank_grid.h"

namespace frugal::engine {

/// The groups of ranks on GPUs: device r is rank r's. With `ring` a pipeline's last stage sends to
/// its first too, as the interleaved schedule does.
inline RankGrid::MakeGroup nccl_groups(std::vector<Device*> devices, bool ring, double deadline) {
  return [devices = std::move(devices), ring, deadline](
             GroupUse use, const std::vector<int>& ranks) -> std::unique_ptr<Group> {
    std::vector<Device*> members;
    for (const int rank : ranks) members.push_back(devices.at(static_cast<size_t>(rank)));
    const auto size = static_cast<int>(members.size());
    if (size == 1) return alone_on(*members.front());
    const bool forward = use == GroupUse::activations;
    const MessagesTo messages = forward                      ? MessagesTo::next
                                : use == GroupUse::gradients ? MessagesTo::previous
                                                             : MessagesTo::nobody;
    if (!ring || messages == MessagesTo::nobody)
      return make_nccl_group(members, deadline, stream_of(use), messages);
    const Stream arriving = forward ? Stream::arriving_activations : Stream::arriving_gradients;
    return std::make_unique<MessageRing>(
        size, forward ? 1 : size - 1, deadline, [&](int from, int to) {
          return make_nccl_group({members.at(from), members.at(to)}, deadline,
                                 {stream_of(use), arriving}, MessagesTo::next);
        });
  };
}

}  // namespace frugal::engine
