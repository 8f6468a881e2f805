// In place of cuDNN's fused attention, where the program is built without it.
#include "kernels/cuda/attention.h"
#include "kernels/support/error.h"

namespace frugal::FRUGAL_CUDA {
namespace {

[[noreturn]] void refuse() {
  throw InputError(
      "fused attention on cuda needs cuDNN and its frontend's headers, which this build does not "
      "have; run scripts/cudnn-frontend.sh and build again, or use --attention separate");
}

}  // namespace

struct FusedAttentions::State {};

FusedAttentions::FusedAttentions(CudaMemory& /*memory*/) {}
FusedAttentions::~FusedAttentions() = default;

void FusedAttentions::run(const FusedAttention& /*op*/, const Launch& /*on*/) { refuse(); }
void FusedAttentions::run(const FusedAttentionBackward& /*op*/, const Launch& /*on*/) { refuse(); }

}  // namespace frugal::FRUGAL_CUDA
