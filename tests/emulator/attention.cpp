// In place of cuDNN's fused attention: the CPU's, in the order of the stream, for what cuDNN
// computes. Its masks of dropout are the CPU's, which cuDNN's are not.
#include "kernels/cuda/attention.h"

#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"

namespace frugal::kernels {

std::string why_no_fused_attention(const FusedAttentionNeeds& needs) {
  return cuda::why_never_fused(needs);
}

}  // namespace frugal::kernels

namespace frugal::kernels::cuda {

std::string cudnn_version() { return ""; }

struct FusedAttentions::State {
  CpuDevice cpu{1};

  void run(const Operation& operation, const FusedAttention& forward, const Launch& on) {
    const std::string why = why_no_fused_attention(needs_of(forward));
    if (!why.empty()) throw InputError(why);
    if (!emulator::is_current(on.stream))
      throw std::logic_error("fused attention on a stream of another GPU");
    if (forward.dropout.active()) on.count_launch();  // of what writes cuDNN's seed
    on.count_library_call();
    if (emulator::gpu().computes)
      emulator::push(on.stream, [this, operation] { cpu.execute(operation); });
  }
};

FusedAttentions::FusedAttentions(CudaMemory& /*memory*/, int /*gpu*/)
    : state_(std::make_unique<State>()) {}
FusedAttentions::~FusedAttentions() = default;

void FusedAttentions::run(const FusedAttention& op, const Launch& on) { state_->run(op, op, on); }
void FusedAttentions::run(const FusedAttentionBackward& op, const Launch& on) {
  state_->run(op, op.forward, on);
}

}  // namespace frugal::kernels::cuda
