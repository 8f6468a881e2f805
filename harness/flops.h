#pragma once
#include "engine/config.h"

namespace frugal {

/// What records and tables call the formulas.
inline constexpr const char* eq7_id = "korthikanti2022/eq7";
inline constexpr const char* layer_eq7_id = "korthikanti2022/eq7, one layer";
inline constexpr const char* eq8_id = "korthikanti2022/eq8";

/// FLOPs of a training iteration over `sequences` sequences, as korthikanti2022 prints them: matrix
/// multiplications, forward and backward, whole model, all devices together.
/// Equation 7: 72 B L s h² (1 + s/(6h) + v/(12 h L)).
double model_flops_eq7(const ModelConfig& model, double sequences);
/// Equation 8, with selective recomputation: 72 B L s h² (1 + s/(3h) + v/(12 h L)).
double hardware_flops_eq8(const ModelConfig& model, double sequences);
/// Equation 7 without the output layer, for one layer: 72 B s h² (1 + s/(6h)).
double layer_flops_eq7(const ModelConfig& model, double sequences);

}  // namespace frugal
