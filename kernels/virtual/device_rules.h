#pragma once
#include <cstdint>

#include "kernels/virtual/attention_rates.h"

namespace frugal::kernels {

/// Waits of a message between stages, besides that for its link.
enum class Messages : uint8_t {
  beside,    ///< none: both ends compute beside it
  blocking,  ///< both ends and their hosts wait until it is there
  exchanged  ///< it begins when both ends are ready, and both compute on when those that they
             ///< exchange with each other are there, which slow each other
};

/// Parts of operations that are kernels of their own; by default each operation is one kernel.
struct ExtraKernels {
  bool bias = false;           ///< of a product, added to its result
  bool gelu = false;           ///< behind a product, or before its gradient
  bool dropout = false;        ///< behind a softmax
  bool mask = false;           ///< of a causal softmax, which then reads what it does not see too
  bool dropout_add = false;    ///< bias, dropout and residual behind a block, a kernel each
  bool residual = false;       ///< the gradient that a norm's is added to
  bool bias_gradient = false;  ///< the sum over rows behind a dropout's gradient
  bool accumulation = false;   ///< of a weight's gradient, added to those before it
  bool clipping = false;       ///< of gradients, and weights copied from their float32 master
  bool division = false;       ///< of gradients by the number of replicas
  bool merge = false;          ///< of ring attention's parts, by operations of their own in float32
  bool float8 = false;  ///< operands of linear maps are cast to 8 bits, with a scale a tensor
  bool early_products = false;  ///< products are those of cuBLAS of 2023

  bool operator==(const ExtraKernels&) const = default;
};

/// Issuer of operations: their launches alone, eager modules of PyTorch, or TransformerEngine's.
enum class Host : uint8_t { launches, eager, transformer_engine };

/// Owner of the kernels that compute the gradients of norms.
enum class Norms : uint8_t { own, pytorch, transformer_engine };

/// Rules by which stages exchange messages.
struct MessageRules {
  Messages kind = Messages::beside;
  /// A sender of exchanged messages is through when the last 4 MiB are in a buffer.
  bool buffered = false;
  /// Exchanges of several stages of a node go on at the same time, and share its ports.
  bool shared_ports = false;
  /// Ranks of a stage that have the same to send send a part of it each, and gather the parts.
  bool sharded = false;

  bool operator==(const MessageRules&) const = default;
};

/// Kernels, waits and memory of a virtual device beside those of its operations. By default there
/// are none.
struct DeviceRules {
  ExtraKernels kernels = {};
  AttentionChoice attention = {};
  MessageRules messages = {};
  Host host = Host::launches;
  /// Separate attention is a module of TransformerEngine's, whose softmax has the module's time.
  bool separate_attention_is_module = false;
  Norms norms = Norms::own;
  /// The host waits for the device before and after each pass of a stage.
  bool host_waits_around_passes = false;
  /// Every stage fetches the batch before a forward pass, and the device waits for it.
  bool fetches_batches = false;
  /// Memory comes from PyTorch's caching allocator (kernels/virtual/pytorch_allocator.h).
  bool caching_allocator = false;
  /// Segments of that allocator grow (expandable_segments:True).
  bool expandable_segments = false;
  /// A communicator of all devices has buffers in each device's memory, beside all that is counted.
  bool communicator_buffers = false;

  bool operator==(const DeviceRules&) const = default;
};

}  // namespace frugal::kernels
