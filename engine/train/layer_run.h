#pragma once
#include <memory>
#include <vector>

#include "engine/cluster.h"
#include "engine/model/layer.h"

namespace frugal {

/// Memory of one rank, in bytes, and the FLOPs of the matrix multiplications it executed.
struct LayerMemory {
  BytesPerKind after_forward{};  ///< what is held between the forward and the backward pass
  BytesPerKind peak{};           ///< highest of each kind over forward and backward
  int64_t peak_total = 0;
  double forward_flops = 0, backward_flops = 0;
};

/// Seconds, from the moment all ranks start until the last one ends.
struct LayerTime {
  double forward = 0, backward = 0;
};

/// One transformer layer alone, on random input and a random gradient of its output: the subject of
/// tables 2 and 4 of korthikanti2022. Recomputation counts as backward, as there.
class LayerRun {
 public:
  explicit LayerRun(Cluster& cluster);

  /// Runs forward and backward once; what rank 0 held.
  LayerMemory memory();
  /// Runs forward and backward once.
  LayerTime time();

 private:
  struct Member {
    std::unique_ptr<TransformerLayer> layer;
    Tensor x, dy;  // [s/t, b, h]
  };
  Member& of(const Rank& rank) { return members_[static_cast<size_t>(rank.index)]; }

  Cluster& cluster_;
  std::vector<Member> members_;
};

}  // namespace frugal
