#include "engine/program/behaviour.h"
#include "engine/rank.h"

/// Behaviours of a virtual machine's clock.
namespace frugal::engine::effects {
namespace {

/// Choices, effects and refusals that these behaviours have.
struct OfClock {
  static std::string_view one_chunk(const RunConfig& config) {
    return config.schedule.has_chunks
               ? "and the schedule has several chunks on a stage, whose neighbours would wait for "
                 "each other"
               : "";
  }

  /// Copies a weight in float32, the newer version to where the older one was, and both to each
  /// other's place by way of a third.
  static void copy_versions(const Occasion& o) {
    const View wide{nullptr, accumulation_type(o.x.type()), o.x.shape()};
    for (int i = 0; i < 4; ++i) o.at.run(Copy{wide, wide});
  }

  /// Copies weights out of float32.
  static void copy_out(const Occasion& o) {
    o.at.run(Convert{View{nullptr, accumulation_type(o.x.type()), o.x.shape()}, o.x});
  }

  static std::string_view no_overlap(const RunConfig& config) {
    return config.overlap_grad_reduce == true ? "and overlap_grad_reduce is on" : "";
  }

  template <Buckets rule>
  static constexpr Choice buckets = [](Choices& c) { c.optimizer.buckets = rule; };
  template <auto member>
  static constexpr Choice kernel = [](Choices& c) { c.device.kernels.*member = true; };
  template <auto member>
  static constexpr Choice message = [](Choices& c) { c.device.messages.*member = true; };
  template <Host host>
  static constexpr Choice issued_by = [](Choices& c) { c.device.host = host; };
  template <Norms norms>
  static constexpr Choice norms_of = [](Choices& c) { c.device.norms = norms; };
  static constexpr Choice triton_attention = [](Choices& c) {
    c.device.attention.kernels = {"flash-attention-1-triton"};
  };
  static constexpr Choice flash_attention_2 = [](Choices& c) {
    c.device.attention.kernels = {"flash-attention-2"};
  };
  template <auto member>
  static constexpr Choice attention = [](Choices& c) { c.device.attention.*member = true; };
  template <Messages kind>
  static constexpr Choice messages = [](Choices& c) { c.device.messages.kind = kind; };
  template <auto member>
  static constexpr Choice device = [](Choices& c) { c.device.*member = true; };
};

}  // namespace

Behaviour timing(std::string_view name, std::string_view does, Choice choose, Changes changes,
                 std::string_view instead_of, Refusal refusal) {
  return {name, changes, does, {}, choose, refusal, false, instead_of};
}

std::vector<Behaviour> of_kernels() {
  return {
      timing("bias-kernel", "A product's bias is added by a kernel of its own",
             OfClock::kernel<&ExtraKernels::bias>),
      timing("gelu-kernel", "GELU is a kernel of its own, with its bias",
             OfClock::kernel<&ExtraKernels::gelu>),
      timing("dropout-kernel", "Dropout behind a softmax is a kernel of its own",
             OfClock::kernel<&ExtraKernels::dropout>),
      timing("mask-kernel",
             "A causal mask is a kernel of its own before the softmax, which then reads all scores",
             OfClock::kernel<&ExtraKernels::mask>),
      timing("dropout-add-kernels", "Bias, dropout and residual behind a block are a kernel each",
             OfClock::kernel<&ExtraKernels::dropout_add>),
      timing("residual-kernel", "The gradient over a residual path is added by a kernel of its own",
             OfClock::kernel<&ExtraKernels::residual>),
      timing("bias-gradient-kernel", "A bias's gradient is summed by a kernel of its own",
             OfClock::kernel<&ExtraKernels::bias_gradient>),
      timing("accumulation-kernel",
             "A weight's gradient is added to those before it by a kernel of its own",
             OfClock::kernel<&ExtraKernels::accumulation>),
      timing("clipping-kernels",
             "Gradients are scaled before the optimizer's kernel, and weights copied behind it",
             OfClock::kernel<&ExtraKernels::clipping>),
      timing("division-kernel",
             "Gradients are divided by the number of replicas, however many there are, by a kernel "
             "of its own",
             OfClock::kernel<&ExtraKernels::division>),
      timing(
          "float8-products",
          "Linear maps cast their operands to 8 bits, with a scale for each tensor, and multiply "
          "those; gradients of norms, attention and memory stay as they are",
          OfClock::kernel<&ExtraKernels::float8>),
      timing("merge-kernels",
             "Parts of ring attention are merged by operations of their own, in float32",
             OfClock::kernel<&ExtraKernels::merge>),
      timing("cublas-2023", "Products have the rate of cuBLAS of 2023",
             OfClock::kernel<&ExtraKernels::early_products>),
      timing("pytorch-norms", "Gradients of norms have the rate of PyTorch's own kernels",
             OfClock::norms_of<Norms::pytorch>),
      timing("transformer-engine-norms",
             "Gradients of norms have the rate of TransformerEngine's kernels",
             OfClock::norms_of<Norms::transformer_engine>, Changes::time, "pytorch-norms"),
      timing("flash-attention-1-triton", "Fused attention is FlashAttention-1 in Triton",
             OfClock::triton_attention),
      timing("flash-attention-2", "Fused attention is FlashAttention-2",
             OfClock::flash_attention_2),
      timing("transformer-engine-attention",
             "Fused attention is FlashAttention-2 before Hopper and, where it is deterministic, on "
             "Blackwell",
             OfClock::attention<&AttentionChoice::by_transformer_engine>),
      timing("deterministic-attention",
             "The backward pass of fused attention sums in one order, which takes longer",
             OfClock::attention<&AttentionChoice::deterministic>)};
}

std::vector<Behaviour> of_hosts() {
  return {
      timing("eager-host", "The host issues operations as eager modules of PyTorch do",
             OfClock::issued_by<Host::eager>),
      timing("transformer-engine-host",
             "The host issues operations as modules of TransformerEngine do",
             OfClock::issued_by<Host::transformer_engine>),
      timing("separate-attention-module",
             "Attention that is not fused is a module of TransformerEngine's, too, to the host",
             OfClock::device<&DeviceRules::separate_attention_is_module>),
      {.name = "version-copies",
       .changes = Changes::time,
       .does = "Passes of another version of the weights than the one before copy it out of "
               "float32, and a step with two versions copies each weight four times",
       .effects = {{ModelEvent::version_used, ModelEvent::version_used, OfClock::copy_out},
                   {ModelEvent::weight_stepped, ModelEvent::weight_stepped,
                    OfClock::copy_versions}},
       .real = false},
      {.name = "host-waits-in-steps",
       .changes = Changes::time,
       .does = "The host waits for all gradients before it issues a step, and for each part of it",
       .effects = {{ModelEvent::moment_read, ModelEvent::moment_read,
                    [](const Occasion& o) { o.at.rank.device.synchronize(); }}},
       .real = false},
      timing("synchronised-passes", "The host waits for the device before and after each pass",
             OfClock::device<&DeviceRules::host_waits_around_passes>),
      timing(
          "batch-on-every-stage",
          "Every stage fetches the batch before each forward pass, and computes nothing meanwhile",
          OfClock::device<&DeviceRules::fetches_batches>),
      timing("blocking-messages", "Both ends of a message, and their hosts, wait until it is there",
             OfClock::messages<Messages::blocking>, Changes::messages, "exchanged-messages"),
      timing("exchanged-messages",
             "A stage sends and receives in one exchange with a neighbour, "
             "which begins when both are ready, and waits for it",
             OfClock::messages<Messages::exchanged>, Changes::messages, "blocking-messages",
             OfClock::one_chunk),
      timing("buffered-messages",
             "The sender of a message that is exchanged is through with it when the last 4 MiB are "
             "in a buffer",
             OfClock::message<&MessageRules::buffered>, Changes::messages),
      timing("shared-ports",
             "Exchanges of all stages of a node with other nodes go on at the same time, and share "
             "the node's ports",
             OfClock::message<&MessageRules::shared_ports>, Changes::messages),
      timing("sharded-messages",
             "Tensor-parallel ranks that have the same to send send a part of it each, and gather "
             "the parts",
             OfClock::message<&MessageRules::sharded>, Changes::messages)};
}

std::vector<Behaviour> of_sums() {
  return {
      {.name = "late-sums",
       .changes = Changes::time,
       .does = "Replicas sum gradients behind the last backward pass of a batch, not beside it",
       .choose = OfClock::buckets<Buckets::none>,
       .refusal = OfClock::no_overlap,
       .instead_of = "first-chunk-buckets"},
      {.name = "awaited-tensor-sums",
       .changes = Changes::time,
       .does =
           "Tensor-parallel ranks wait for the sum of the gradient of a linear map's input, and "
           "compute nothing beside it",
       .choose = [](Choices& c) { c.waits_for_tensor_sums = true; }},
      {.name = "first-chunk-buckets",
       .changes = Changes::time,
       .does = "Beside the last backward pass, replicas sum gradients of the first stage's first "
               "chunk in buckets of 40 million, or of a million for each replica, whichever is "
               "more, and those of any other chunk when it has all of them",
       .choose = OfClock::buckets<Buckets::first_chunk>,
       .instead_of = "late-sums"},
      {.name = "buckets-of-25-mib",
       .changes = Changes::time,
       .does = "Beside the last backward pass, replicas sum gradients in buckets of 25 MiB",
       .choose = OfClock::buckets<Buckets::of_25_mib>,
       .instead_of = "first-chunk-buckets"}};
}

}  // namespace frugal::engine::effects
