#pragma once
#include "kernels/operations.h"

namespace frugal {

template <class Op>
struct Kernel {
  void (*run)(const Op&);
};

/// The vectorised kernels of one instruction set, one for each operation but Gemm (oneDNN).
struct Kernels : Kernel<ColumnSum>,
                 Kernel<LayerNorm>,
                 Kernel<LayerNormBackward>,
                 Kernel<RmsNorm>,
                 Kernel<RmsNormBackward>,
                 Kernel<Gelu>,
                 Kernel<GeluBackward>,
                 Kernel<Softmax>,
                 Kernel<SoftmaxBackward>,
                 Kernel<BiasDropoutAdd>,
                 Kernel<BiasDropoutAddBackward>,
                 Kernel<Embedding>,
                 Kernel<EmbeddingBackward>,
                 Kernel<CrossEntropyStatistics>,
                 Kernel<CrossEntropy>,
                 Kernel<Adam>,
                 Kernel<Sum>,
                 Kernel<Fill>,
                 Kernel<Convert>,
                 Kernel<RandomNormal> {
  template <class Op>
  void operator()(const Op& op) const {
    Kernel<Op>::run(op);
  }
};

}  // namespace frugal
