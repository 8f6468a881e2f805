// In place of cuDNN's fused attention, where the program is built without it.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal {

std::string why_no_fused_attention(DType /*type*/, bool /*softcap*/) {
  return "fused attention on cuda needs cuDNN and its frontend's headers, which this build does "
         "not have; run scripts/cudnn-frontend.sh and build again, or use --attention separate";
}

}  // namespace frugal

namespace frugal::FRUGAL_CUDA {
namespace {

[[noreturn]] void refuse(DType type) { throw InputError(why_no_fused_attention(type)); }

}  // namespace

std::string cudnn_version() { return ""; }

struct FusedAttentions::State {};

FusedAttentions::FusedAttentions(CudaMemory& /*memory*/) {}
FusedAttentions::~FusedAttentions() = default;

void FusedAttentions::run(const FusedAttention& op, const Launch& /*on*/) { refuse(op.q.type); }
void FusedAttentions::run(const FusedAttentionBackward& op, const Launch& /*on*/) {
  refuse(op.dy.type);
}

}  // namespace frugal::FRUGAL_CUDA
