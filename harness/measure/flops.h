#pragma once
#include <cstdint>
#include <string>

#include "engine/config.h"
#include "engine/train/module_run.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// What records and tables call the formulas.
inline constexpr const char* eq7_id = "korthikanti2022/eq7";
inline constexpr const char* eq8_id = "korthikanti2022/eq8";
inline constexpr const char* visible_pairs_id = "visible pairs";

/// FLOPs that a training iteration over `sequences` sequences needs: matrix multiplications,
/// forward and backward, whole model, all devices together. What is computed again does not count.
///
/// With learned positions as equation 7 of korthikanti2022 counts, which of a GPT is
/// 72 B L s h² (1 + s/(6h) + v/(12 h L)): with the scores of all pairs of positions, those that a
/// mask hides too. With rotary positions, of models that long sequences are for and of which hidden
/// pairs would soon be most, those of the pairs that the mask and a layer's window leave.
double model_flops(const ModelConfig& model, double sequences);
/// Which pairs of positions have a score that counts: all, or those that mask and window leave.
enum class Pairs : uint8_t { all, visible };
/// The same, of any model as the one or the other counts.
double model_flops(const ModelConfig& model, double sequences, Pairs pairs);
/// What records call that formula.
std::string model_formula(const ModelConfig& model);
/// Equation 8 of korthikanti2022, with selective recomputation, of a GPT:
/// 72 B L s h² (1 + s/(3h) + v/(12 h L)).
double hardware_flops_eq8(const ModelConfig& model, double sequences);
/// The part of model_flops() that is one module's, a layer's that of the first one; of a GPT's
/// layer 72 B s h² (1 + s/(6h)).
double module_flops(const ModelConfig& model, Module module, double sequences);
/// What records call it: "korthikanti2022/eq7, one layer".
std::string module_formula(const ModelConfig& model, Module module);

/// What a run costs: hours of a device that it takes for a billion tokens, all devices together,
/// where a step of all replicas takes so many seconds.
double device_hours_per_billion_tokens(const RunConfig& run, double step_seconds);

}  // namespace frugal::harness
