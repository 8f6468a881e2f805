#pragma once
#include <string>

#include "engine/config.h"
#include "engine/train/module_run.h"

namespace frugal {

/// What records and tables call the formulas.
inline constexpr const char* eq7_id = "korthikanti2022/eq7";
inline constexpr const char* eq8_id = "korthikanti2022/eq8";

/// FLOPs of a training iteration over `sequences` sequences, as korthikanti2022 counts them: matrix
/// multiplications, forward and backward, whole model, all devices together. Equation 7, of a GPT:
/// 72 B L s h² (1 + s/(6h) + v/(12 h L)); other families have matrices of other sizes.
double model_flops_eq7(const ModelConfig& model, double sequences);
/// Equation 8, with selective recomputation: 72 B L s h² (1 + s/(3h) + v/(12 h L)).
double hardware_flops_eq8(const ModelConfig& model, double sequences);
/// The part of equation 7 that is one module's; of a GPT's layer 72 B s h² (1 + s/(6h)).
double module_flops(const ModelConfig& model, Module module, double sequences);
/// What records call it: "korthikanti2022/eq7, one layer".
std::string module_formula(Module module);

}  // namespace frugal
