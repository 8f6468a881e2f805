#pragma once
#include "kernels/cuda/launch.h"
#include "kernels/operations.h"

/// Our own kernels: every operation but matrix products and fused attention, which libraries do.
/// Each one issues its work to launch.stream and returns. Any address that is aligned to its type
/// and any number of columns works; addresses aligned to 16 bytes and columns in multiples of 8 are
/// fast. Sums have an order that depends on shapes and on the number of multiprocessors only.
namespace frugal::kernels::cuda {

void run(const ColumnSum& op, const Launch& on);
void run(const LayerNorm& op, const Launch& on);
void run(const LayerNormBackward& op, const Launch& on);
void run(const RmsNorm& op, const Launch& on);
void run(const RmsNormBackward& op, const Launch& on);
void run(const Gelu& op, const Launch& on);
void run(const GeluBackward& op, const Launch& on);
void run(const GatedUnit& op, const Launch& on);
void run(const GatedUnitBackward& op, const Launch& on);
void run(const SoftCap& op, const Launch& on);
void run(const Rotary& op, const Launch& on);
void run(const Copy& op, const Launch& on);
void run(const Softmax& op, const Launch& on);
void run(const SoftmaxBackward& op, const Launch& on);
void run(const MergeAttention& op, const Launch& on);
void run(const BiasDropoutAdd& op, const Launch& on);
void run(const BiasDropoutAddBackward& op, const Launch& on);
void run(const Embedding& op, const Launch& on);
void run(const EmbeddingBackward& op, const Launch& on);
void run(const CrossEntropyStatistics& op, const Launch& on);
void run(const CrossEntropy& op, const Launch& on);
void run(const Momentum& op, const Launch& on);
void run(const Adam& op, const Launch& on);
void run(const Sum& op, const Launch& on);
void run(const Fill& op, const Launch& on);
void run(const Convert& op, const Launch& on);
void run(const RandomNormal& op, const Launch& on);

}  // namespace frugal::kernels::cuda
