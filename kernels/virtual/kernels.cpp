// Which kernels a program runs for an operation, and how long each takes.
#include "kernels/virtual/cost_model.h"

namespace frugal::kernels {
namespace {

double bytes(const View& view) { return static_cast<double>(view.bytes()); }

/// The part of the pairs of rows and columns that count.
double visible(const View& scores) {
  const auto cols = static_cast<double>(scores.cols());
  return (cols + 1) / (2 * cols);
}

}  // namespace

Gemm CostModel::alone(const Gemm& gemm) const {
  Gemm product = gemm;
  if (extra_.bias) product.bias = {};
  if (extra_.accumulation) product.accumulate = false;
  return product;
}

/// Scales and casts as torchao's (roofline_utils.py): of an activation or its gradient its largest
/// value is found, and it is written twice in 8 bits, 6 bytes an element; of a weight, in two
/// kernels, 8. The product of a weight's gradient finds both operands cast.
void CostModel::add_casts(const Gemm& gemm, Kernels& kernels) const {
  if (!in_float8(gemm) || gemm.transpose_a) return;
  const double of_weight = gemm.transpose_b ? 4 * bytes(gemm.b) : 0;
  kernels.add(memory_bound(3 * bytes(gemm.a) + of_weight));
}

CostModel::Kernels CostModel::kernels_of(const Gemm& gemm) const {
  const Gemm bare = alone(gemm);
  Kernels kernels{product(bare, bare.cost().bytes)};
  add_casts(gemm, kernels);
  if (bare.bias.empty() && !gemm.bias.empty())
    kernels.add(memory_bound(2 * bytes(gemm.c) + bytes(gemm.bias)));
  if (gemm.accumulate && !bare.accumulate) kernels.add(memory_bound(3 * bytes(gemm.c)));
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const GemmGelu& both) const {
  const Gemm bare = alone(both.gemm);  // GELU's kernel adds the bias
  Kernels kernels{extra_.gelu ? product(bare, bare.cost().bytes)
                              : product(both.gemm, both.cost().bytes)};
  if (extra_.gelu) kernels.add(memory_bound(both.epilogue().cost().bytes));
  add_casts(both.gemm, kernels);
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const GemmGeluBackward& both) const {
  Kernels kernels{product(both.gemm, (extra_.gelu ? both.gemm.cost() : both.cost()).bytes)};
  if (extra_.gelu) kernels.add(memory_bound(both.epilogue().cost().bytes));
  add_casts(both.gemm, kernels);
  return kernels;
}

/// The product's own sums are added to the gradient by a small kernel.
CostModel::Kernels CostModel::kernels_of(const GemmBiasGradient& both) const {
  Kernels kernels = kernels_of(both.gemm);
  kernels.add(
      memory_bound(extra_.bias_gradient ? both.epilogue().cost().bytes : 3 * bytes(both.dbias)));
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const Softmax& softmax) const {
  const bool separate = softmax.causal && extra_.mask;
  const double seen = softmax.causal && !separate ? visible(softmax.x) : 1;
  const double soft = seen * bytes(softmax.x) + bytes(softmax.p);
  const double kept = bytes(softmax.mask) + bytes(softmax.dropped);
  Kernels kernels{};
  if (separate) kernels.add(attention_bound(2 * bytes(softmax.x)));
  if (!extra_.dropout || softmax.dropped.empty()) {
    kernels.add(attention_bound(soft + kept));
  } else {
    kernels.add(attention_bound(soft));
    kernels.add(attention_bound(bytes(softmax.p) + kept));
  }
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const SoftmaxBackward& backward) const {
  const bool separate = backward.causal && extra_.mask;
  const double seen = backward.causal && !separate ? visible(backward.p) : 1;
  const double soft = seen * (bytes(backward.dy) + bytes(backward.p)) + bytes(backward.dx);
  Kernels kernels{};
  if (!extra_.dropout || !backward.dropout.active()) {
    kernels.add(attention_bound(soft + bytes(backward.mask)));
  } else {
    kernels.add(attention_bound(2 * bytes(backward.dy) + bytes(backward.mask)));
    kernels.add(attention_bound(soft));
  }
  if (separate) kernels.add(attention_bound(2 * bytes(backward.dx)));
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const FusedAttention& attention) const {
  const double arithmetic = attention_ ? attention_.forward(attention)
                                       : attention_arithmetic(attention, FusedAttention::products);
  return {
      slowed(kernel_latency_ + std::max(attention.cost().bytes * seconds_per_byte_, arithmetic))};
}

CostModel::Kernels CostModel::kernels_of(const FusedAttentionBackward& backward) const {
  const double arithmetic =
      attention_ ? attention_.backward(backward.forward)
                 : attention_arithmetic(backward.forward, FusedAttentionBackward::products);
  return {
      slowed(kernel_latency_ + std::max(backward.cost().bytes * seconds_per_byte_, arithmetic))};
}

/// Kernels of a part of 2 bytes an element, converted to float32 (6), two differences (12 each) and
/// a product (8) with the sigmoid of each row, of which one kernel has 10.
CostModel::Kernels CostModel::kernels_of(const MergeAttention& merge) const {
  Kernels kernels{memory_bound(merge.cost().bytes)};
  if (extra_.merge) kernels.add(memory_bound(14 * bytes(merge.part)));
  return kernels;
}

CostModel::Kernels CostModel::norm_backward(double all, const View& add) const {
  const double of_norm = extra_.residual ? all - bytes(add) : all;
  Kernels kernels{slowed(kernel_latency_ + of_norm * norm_seconds_per_byte_)};
  if (extra_.residual && !add.empty()) kernels.add(memory_bound(3 * bytes(add)));
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const LayerNormBackward& backward) const {
  return norm_backward(backward.cost().bytes, backward.add);
}

CostModel::Kernels CostModel::kernels_of(const RmsNormBackward& backward) const {
  return norm_backward(backward.cost().bytes, backward.add);
}

CostModel::Kernels CostModel::kernels_of(const BiasDropoutAdd& add) const {
  if (!extra_.dropout_add) return {memory_bound(add.cost().bytes)};
  const double each = 2 * bytes(add.y);
  Kernels kernels{};
  if (!add.bias.empty()) kernels.add(memory_bound(each + bytes(add.bias)));
  if (add.dropout.active()) kernels.add(memory_bound(each + bytes(add.mask)));
  if (!add.residual.empty()) kernels.add(memory_bound(each + bytes(add.residual)));
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const BiasDropoutAddBackward& backward) const {
  const double all = backward.cost().bytes, sum = 2 * bytes(backward.dbias);
  if (!extra_.bias_gradient || backward.dbias.empty()) return {memory_bound(all)};
  return {memory_bound(all - sum), memory_bound(bytes(backward.dx) + sum)};
}

CostModel::Kernels CostModel::kernels_of(const Adam& adam) const {
  const double all = adam.cost().bytes, weights = bytes(adam.update.target());
  const double master = adam.update.keeps_state ? 0 : bytes(adam.update.master);
  Kernels kernels{};
  if (extra_.division) kernels.add(memory_bound(2 * bytes(adam.update.gradient)));
  const bool clips = extra_.clipping && master > 0;
  if (clips) kernels.add(memory_bound(2 * bytes(adam.update.gradient)));
  kernels.add(memory_bound(clips ? all - weights : all));
  if (clips) kernels.add(memory_bound(master + weights));
  return kernels;
}

CostModel::Kernels CostModel::kernels_of(const Transfer& transfer) const {
  return {slowed(kernel_latency_ + bytes(transfer.from) / host_bandwidth_)};
}

}  // namespace frugal::kernels
