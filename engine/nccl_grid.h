#pragma once
#include "engine/comm/modelled.h"
#include "engine/comm/nccl.h"
#include "engine/rank_grid.h"

namespace frugal {

/// Groups that must not wait for each other have a stream each: neighbouring stages send to each
/// other at the same time, and the ends of a pipeline may wait long for each other.
inline Stream stream_of(GroupUse use) {
  switch (use) {
    case GroupUse::activations:
      return Stream::activations;
    case GroupUse::gradients:
      return Stream::gradients;
    case GroupUse::ends:
      return Stream::copy;
    case GroupUse::tensor:
    case GroupUse::data:
      break;
  }
  return Stream::communication;
}

/// The groups of ranks on GPUs: device r is rank r's.
inline RankGrid::MakeGroup nccl_groups(std::vector<Device*> devices, double deadline) {
  return [devices = std::move(devices), deadline](
             GroupUse use, const std::vector<int>& ranks) -> std::unique_ptr<Group> {
    std::vector<Device*> members;
    for (const int rank : ranks) members.push_back(devices.at(static_cast<size_t>(rank)));
    if (members.size() > 1) return make_nccl_group(members, deadline, stream_of(use));
    return std::make_unique<ModelledGroup>(*members.front(), CostModel(Machine{}),
                                           CostModel::Group{});
  };
}

}  // namespace frugal
