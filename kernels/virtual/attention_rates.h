#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/operations.h"
#include "kernels/support/json_file.h"

namespace frugal::kernels {

struct Machine;

/// Published rates of one kernel of fused attention on one device, for one size of a head. FLOPs
/// are counted as FlashAttention's own benchmark counts them: 4 b·s²·h·d forward, half of that
/// where attention is causal, and 2.5 times as many backward.
struct AttentionRates {
  std::string kernel;  ///< "flash-attention-2"
  int64_t head_size = 0;
  bool causal = false;
  std::vector<double> sequence;           ///< lengths that were measured, rising
  std::vector<double> forward, backward;  ///< FLOP/s at each of them
  /// Shares of the rates that are left with dropout, and of backward's in a deterministic pass.
  double forward_dropout = 1, backward_dropout = 1, deterministic = 1;
  /// Blocks of 128 rows of a head that the measurement had, and the rounds of all multiprocessors
  /// that a kernel loses besides: few heads leave multiprocessors idle.
  double blocks = 0, forward_ramp = 0, backward_ramp = 0;
  std::string source;
};

/// Kernels of fused attention that a program takes.
struct AttentionChoice {
  /// The first that a machine has rates of. frugal's own is cuDNN's.
  std::array<std::string_view, 2> kernels = {"cudnn", "flash-attention-2"};
  bool deterministic = false;
  bool by_transformer_engine = false;  ///< FlashAttention 2 where takes_flash_attention()

  bool operator==(const AttentionChoice&) const = default;
};

/// True where TransformerEngine takes FlashAttention, not cuDNN's attention, on GPUs of this
/// compute capability: before Hopper, and on Blackwell where attention's gradient is to be the same
/// each time.
bool takes_flash_attention(double compute_capability, bool deterministic);

/// Rates of the first of these kernels that a machine has; none where it has none of them.
class AttentionClock {
 public:
  AttentionClock(const Machine& machine, const AttentionChoice& choice);

  explicit operator bool() const { return !rates_.empty(); }
  double forward(const FusedAttention& attention) const {
    return seconds(attention, attention.flops(FusedAttention::products), true);
  }
  double backward(const FusedAttention& attention) const {
    return seconds(attention, attention.flops(FusedAttentionBackward::products), false);
  }

 private:
  /// The nearest measured size of a head, of a causal kernel where `attention` is.
  const AttentionRates& nearest(const FusedAttention& attention) const;
  double seconds(const FusedAttention& attention, double flops, bool forward) const;

  std::vector<AttentionRates> rates_;
  double multiprocessors_;
  bool deterministic_;
};

/// [{"kernel", "head_size", "causal", "sequence": […], "forward": […], "backward": […], "source"},
/// …] and, of each, optionally {"forward_dropout", "backward_dropout", "deterministic", "blocks",
/// "forward_ramp", "backward_ramp"}. Throws InputError.
std::vector<AttentionRates> read_attention_rates(const JsonObject& machine);
/// Document that read_attention_rates() reads.
nlohmann::json to_json(const std::vector<AttentionRates>& all);

}  // namespace frugal::kernels
