#pragma once
#include "kernels/cpu/simd/kernels.h"

/// The sources of this folder are compiled once per instruction set, each time with another
/// FRUGAL_SIMD, which names the namespace. Inline functions of shared headers are emitted by every
/// one of these objects; the linker keeps the first, so the baseline is linked first.
namespace frugal::kernels::FRUGAL_SIMD {

void run(const ColumnSum& op);
void run(const LayerNorm& op);
void run(const LayerNormBackward& op);
void run(const RmsNorm& op);
void run(const RmsNormBackward& op);
void run(const Gelu& op);
void run(const GeluBackward& op);
void run(const GatedUnit& op);
void run(const GatedUnitBackward& op);
void run(const SoftCap& op);
void run(const Rotary& op);
void run(const Copy& op);
void run(const Transfer& op);
void run(const Softmax& op);
void run(const SoftmaxBackward& op);
void run(const MergeAttention& op);
void run(const BiasDropoutAdd& op);
void run(const BiasDropoutAddBackward& op);
void run(const Embedding& op);
void run(const EmbeddingBackward& op);
void run(const CrossEntropyStatistics& op);
void run(const CrossEntropy& op);
void run(const Momentum& op);
void run(const Adam& op);
void run(const Sum& op);
void run(const Fill& op);
void run(const Convert& op);
void run(const RandomNormal& op);

void run(const OnlineSoftmax& op);
void run(const ScoreGradient& op);
void run(const RowDots& op);
void run(const ScaledRows& op);

extern const Kernels kernels;

}  // namespace frugal::kernels::FRUGAL_SIMD
