#pragma once
#include "engine/comm/communicator.h"
#include "engine/config.h"
#include "engine/memory/parameter_store.h"

namespace frugal {

/// One member of a run: its processor, its memory, and the group it computes with.
class Rank {
 public:
  Rank(Device& device, Communicator& tensor_group, const RunConfig& config)
      : device(device), tensor_group(tensor_group), config(config), ledger(device) {}

  Device& device;
  Communicator& tensor_group;
  const RunConfig config;
  Ledger ledger;
  ParameterStore parameters;

  /// Microbatch of the whole run that is being computed: makes every dropout mask its own.
  uint32_t draw = 0;
  /// Whether dropout is applied.
  bool training = true;
  /// FLOPs of the matrix multiplications executed so far on this rank.
  double flops = 0;

  /// Issues an operation to the compute stream.
  void run(const Operation& operation) {
    flops += cost_of(operation).flops;
    device.execute(operation);
  }
  Tensor allocate(const Shape& shape, Kind kind = Kind::workspace) {
    return {ledger, kind, config.type, shape};
  }
  Tensor allocate(DType type, const Shape& shape, Kind kind = Kind::workspace) {
    return {ledger, kind, type, shape};
  }
};

}  // namespace frugal
