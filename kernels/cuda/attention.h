#pragma once
#include <memory>
#include <string>

#include "kernels/cuda/gpus.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops/launch.h"
#include "kernels/operations.h"

namespace frugal::kernels::cuda {

/// Version of cuDNN, as it was loaded: "9.1.0"; empty in a build without it.
std::string cudnn_version();

/// Demands of an attention on a GPU.
inline FusedAttentionNeeds needs_of(const FusedAttention& op) {
  return {op.q.type, op.q.cols(), op.cols(), op.softcap != 0, op.window != 0};
}

/// Reason that no cuDNN on any GPU has it; empty if some may.
std::string why_never_fused(const FusedAttentionNeeds& needs);

/// Fused attention by cuDNN (kernels/cuda/attention.cpp), or its refusal in a build without it
/// (attention_none.cpp). bf16 only, heads of multiples of 8, and soft caps from compute
/// capability 9.0 on: throws InputError for others. For one thread at a time.
///
/// Dropout is the one place where a GPU does not drop the elements that the CPU drops: the library
/// draws its own masks, from a seed that is made of this operation's stream and index.
/// Recomputation and the backward pass draw the same again; another sharding draws others.
class FusedAttentions {
 public:
  /// `gpu` is the current one's index: what cuDNN prepares is kept by the process for it.
  FusedAttentions(CudaMemory& memory, int gpu);
  ~FusedAttentions();
  FusedAttentions(const FusedAttentions&) = delete;
  FusedAttentions& operator=(const FusedAttentions&) = delete;

  void run(const FusedAttention& op, const Launch& on);
  void run(const FusedAttentionBackward& op, const Launch& on);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace frugal::kernels::cuda
