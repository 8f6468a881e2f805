#pragma once
#include "engine/config.h"
#include "experiments/namespace.h"
#include "harness/measure/flops.h"

/// The equations of "Reducing Activation Recomputation in Large Transformer Models"
/// (korthikanti2022), as printed. What is executed is compared with them; nothing is computed from
/// them in its stead. Equations 7 and 8 are in harness/measure/flops.h.
namespace frugal::experiments::korthikanti2022 {

/// Activations of one transformer layer on one device, in bytes: the row of table 2 that the
/// configuration names. Equation 1 is t = 1, equation 2 t > 1, equation 4 sequence parallelism;
/// the selective rows are those without 5as²b/t, and so is fused attention; full recomputation
/// keeps 2sbh. Exact, because the heads are divisible by t. Throws InputError for full
/// recomputation with sequence parallelism, which table 2 does not have.
int64_t layer_activation_bytes(const RunConfig& run);

/// Section 4.1: equation 1's bytes by the parts of a layer, without parallelism and recomputation.
struct LayerParts {
  int64_t attention = 0;  ///< 11sbh + 5as²b
  int64_t mlp = 0;        ///< 19sbh
  int64_t norms = 0;      ///< 4sbh
};
LayerParts layer_activation_parts(const RunConfig& run);

/// How the layers of a model are spread over its pipeline.
struct Pipeline {
  int64_t stages = 1;      ///< [p]
  int64_t interleave = 1;  ///< [m], model chunks per stage
};

/// Equations 5 and 6: activations that the first pipeline stage holds, in bytes: those of L layers
/// (1F1B), times 1 + (p − 1)/(pm) under the interleaved schedule.
double first_stage_activation_bytes(const RunConfig& run, const Pipeline& pipeline);

/// Section 4.3: activations outside the layers on the first stage, in bytes: sbhp/t for the dropout
/// masks of the embedding, and where p = 1 also 4sbh/t · (1 + v/h) for the last layer norm's and
/// the output layer's inputs and the float32 logits.
double outside_activation_bytes(const RunConfig& run, const Pipeline& pipeline);

/// N = 12 L h² (1 + 13/(12h) + (v + s)/(12Lh)).
int64_t parameters(const ModelConfig& model);

/// Parameters, gradients and Adam's state on one device, in bytes: 18 N / (tp). 2 for a 16-bit
/// weight, 4 for its float32 gradient, 12 for master weight and moments; inferred from figure 1.
double state_bytes(const RunConfig& run, const Pipeline& pipeline);

/// Equation 9: hardware FLOPs over model FLOPs with selective recomputation, 1 + s/(6h).
double hardware_over_model_eq9(const ModelConfig& model);

/// What recomputing the forward pass of the attention core adds to the model FLOPs of equation 7 by
/// the paper's own count of that pass (appendix A: QKᵀ and attention over V, 2bs²h each), as a
/// fraction: s/(18h) where the output layer is left out. Equation 8 charges three times as much.
double core_recompute_fraction(const ModelConfig& model);

/// FLOPs per second of all devices over their peak: MFU of model FLOPs, HFU of hardware FLOPs.
double utilization(double flops, double seconds, double devices, double peak_flops);

}  // namespace frugal::experiments::korthikanti2022
