#pragma once
#include <functional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/config.h"
#include "engine/memory/parameter_store.h"

namespace frugal {

struct Parameter;

/// The groups that a rank computes with; it is alone in those that a run does not need.
struct RankGroups {
  Communicator& tensor;       ///< the t that share every layer
  Communicator& context;      ///< the c that share every sequence
  Communicator& stages;       ///< the p stages of its pipeline
  Communicator& activations;  ///< the same, for messages of forward passes alone
  Communicator& gradients;    ///< the same, for messages of backward passes
  Communicator& data;         ///< the w replicas of its part
  Communicator& ends;         ///< of the first and the last stage, to each other
};

/// Weight gradients that a backward pass has left for later (ActionKind::weight_backward).
using Deferred = std::vector<std::function<void()>>;

/// What is on its way to the host's memory (engine/model/checkpoint.h).
struct OffloadInFlight {
  Tensor source;
  Event end;
};

/// Sees a part of a microbatch's logits, [rows, columns], which begins at this row of all tokens
/// and this column of the vocabulary.
using OnLogits = std::function<void(const View& logits, int64_t first_row, int64_t first_column)>;

/// One member of a run: its processor, its memory, and the groups it computes with.
class Rank {
 public:
  Rank(int index, Device& device, const RankGroups& groups, const RunConfig& config)
      : index(index),
        device(device),
        groups(groups),
        tensor_group(groups.tensor),
        config(config),
        ledger(device),
        host(device, Ledger::Where::host),
        recompute(config.recompute) {}

  const int index;  ///< among the cluster's local ranks
  Device& device;
  const RankGroups groups;
  Communicator& tensor_group;
  const RunConfig config;

  int stage() const { return groups.stages.rank(); }
  int replica() const { return groups.data.rank(); }
  /// Whether no other rank of its stage comes before it; what is absent does not.
  bool first_of_stage() const {
    const auto first = [](const Communicator& group) {
      return group.rank() == 0 || !group.whole();
    };
    return first(groups.tensor) && first(groups.context) && first(groups.data);
  }
  /// Whether no rank of its groups is absent; otherwise what it computes means nothing.
  bool whole() const {
    return groups.tensor.whole() && groups.context.whole() && groups.data.whole();
  }

  Ledger ledger;
  Ledger host;  ///< of the host's memory
  OffloadInFlight offload;
  ParameterStore parameters;

  /// Microbatch of the whole run that is being computed: makes every dropout mask its own.
  uint32_t draw = 0;
  /// Whether dropout is applied.
  bool training = true;
  /// What the microbatch that is being computed does not keep.
  Recompute recompute;
  /// Where backward passes leave their weight gradients; null: they compute them at once.
  Deferred* deferred = nullptr;
  /// Where it is set, sees the logits of each forward pass, in one part or several.
  OnLogits on_logits;
  /// Where a run steps in backward: told of parameters whose gradients this rank's backward pass
  /// has completed. Empty: they are kept.
  std::function<void(const std::vector<Parameter*>&)> on_gradients;
  /// FLOPs of the matrix multiplications executed so far on this rank.
  double flops = 0;
  /// Where it is set: what has been added to them, one by one.
  std::vector<double>* counted = nullptr;

  void count(double more) {
    flops += more;
    if (counted != nullptr && more != 0) counted->push_back(more);
  }
  /// Issues an operation to the compute stream.
  void run(const Operation& operation) {
    count(cost_of(operation).flops);
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
