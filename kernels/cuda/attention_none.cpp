// In place of cuDNN's fused attention, where the program is built without it.
#include <fmt/format.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::kernels {

std::string why_no_fused_attention(const FusedAttentionNeeds& needs) {
  return fmt::format(
      "fused attention on cuda needs cuDNN and its frontend's headers, which this build does not "
      "have; run scripts/cudnn-frontend.sh and build again, or {}",
      needs.softcap || needs.window ? "run this model on the cpu or virtual"
                                    : "use --attention separate");
}

}  // namespace frugal::kernels

namespace frugal::kernels::cuda {
namespace {

[[noreturn]] void refuse(const FusedAttention& op) {
  throw InputError(why_no_fused_attention(needs_of(op)));
}

}  // namespace

std::string cudnn_version() { return ""; }

struct FusedAttentions::State {};

FusedAttentions::FusedAttentions(CudaMemory& /*memory*/, int /*gpu*/) {}
FusedAttentions::~FusedAttentions() = default;

void FusedAttentions::run(const FusedAttention& op, const Launch& /*on*/) { refuse(op); }
void FusedAttentions::run(const FusedAttentionBackward& op, const Launch& /*on*/) {
  refuse(op.forward);
}

}  // namespace frugal::kernels::cuda
