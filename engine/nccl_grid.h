#pragma once
#include "engine/comm/modelled.h"
#include "engine/comm/nccl.h"
#include "engine/rank_grid.h"

namespace frugal {

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
