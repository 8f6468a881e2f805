#pragma once
#include "kernels/cpu/simd/attention_steps.h"
#include "kernels/operations.h"

namespace frugal::kernels {

template <class Op>
struct Kernel {
  void (*run)(const Op&);
};

/// The vectorised kernels of one instruction set, one for each operation but Gemm (oneDNN)
/// and fused attention (kernels/cpu/attention.h), of which these are steps.
struct Kernels : Kernel<ColumnSum>,
                 Kernel<LayerNorm>,
                 Kernel<LayerNormBackward>,
                 Kernel<RmsNorm>,
                 Kernel<RmsNormBackward>,
                 Kernel<Gelu>,
                 Kernel<GeluBackward>,
                 Kernel<GatedUnit>,
                 Kernel<GatedUnitBackward>,
                 Kernel<SoftCap>,
                 Kernel<Rotary>,
                 Kernel<Copy>,
                 Kernel<Transfer>,
                 Kernel<Softmax>,
                 Kernel<SoftmaxBackward>,
                 Kernel<MergeAttention>,
                 Kernel<BiasDropoutAdd>,
                 Kernel<BiasDropoutAddBackward>,
                 Kernel<Embedding>,
                 Kernel<EmbeddingBackward>,
                 Kernel<CrossEntropyStatistics>,
                 Kernel<CrossEntropy>,
                 Kernel<Momentum>,
                 Kernel<Adam>,
                 Kernel<Sum>,
                 Kernel<Fill>,
                 Kernel<Convert>,
                 Kernel<RandomNormal>,
                 Kernel<OnlineSoftmax>,
                 Kernel<ScoreGradient>,
                 Kernel<RowDots>,
                 Kernel<ScaledRows> {
  template <class Op>
  void operator()(const Op& op) const {
    Kernel<Op>::run(op);
  }
};

}  // namespace frugal::kernels
