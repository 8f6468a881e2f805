#include "experiments/korthikanti2022/formulas.h"

#include <gtest/gtest.h>

#include "experiments/korthikanti2022/layers.h"
#include "kernels/support/error.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

RunConfig layer(const std::string& name, const Technique& technique) {
  return layer_config(model(name), technique, 1);
}
double bytes(const std::string& name, const Technique& technique) {
  return static_cast<double>(layer_activation_bytes(layer(name, technique)));
}

TEST(Formulas, Equation1IsTheSumOfTheBreakdown) {
  const RunConfig run = layer("22B", serial);
  const auto& m = run.model;
  const int64_t s = m.sequence, b = run.micro_batch, h = m.hidden, a = m.heads;
  const int64_t attention = 2 * s * b * h + 4 * s * b * h + 2 * a * s * s * b + a * s * s * b +
                            2 * a * s * s * b + 2 * s * b * h + 2 * s * b * h + s * b * h;
  const int64_t mlp = 2 * s * b * h + 8 * s * b * h + 8 * s * b * h + s * b * h;
  const int64_t norms = 4 * s * b * h;
  EXPECT_EQ(layer_activation_bytes(run), attention + mlp + norms);
  const LayerParts parts = layer_activation_parts(run);
  EXPECT_EQ(parts.attention, attention);
  EXPECT_EQ(parts.mlp, mlp);
  EXPECT_EQ(parts.norms, norms);
}

TEST(Formulas, Table2AsPrinted) {
  for (const Model& m : models()) {
    const auto s = static_cast<double>(m.config.sequence), h = static_cast<double>(m.config.hidden);
    const auto b = static_cast<double>(m.micro_batch), a = static_cast<double>(m.config.heads);
    const auto t = static_cast<double>(m.tensor_parallel);
    const std::string& n = m.config.name;
    EXPECT_DOUBLE_EQ(bytes(n, serial), s * b * h * (34 + 5 * a * s / h));
    EXPECT_DOUBLE_EQ(bytes(n, baseline), s * b * h * (10 + 24 / t + 5 * a * s / (h * t)));
    EXPECT_DOUBLE_EQ(bytes(n, sequence), s * b * h * (34 / t + 5 * a * s / (h * t)));
    EXPECT_DOUBLE_EQ(bytes(n, selective), s * b * h * (10 + 24 / t));
    EXPECT_DOUBLE_EQ(bytes(n, present), s * b * h * 34 / t);
    EXPECT_DOUBLE_EQ(bytes(n, full), s * b * h * 2);
  }
}

TEST(Formulas, Table2HasNoFullRecomputationWithSequenceParallelism) {
  RunConfig run = layer("22B", full);
  run.sequence_parallel = true;
  EXPECT_THROW(layer_activation_bytes(run), InputError);
}

TEST(Formulas, ActivationsShrinkAboutFiveTimes) {
  for (const Model& m : models()) {
    const std::string& n = m.config.name;
    EXPECT_NEAR(bytes(n, baseline) / bytes(n, present),
                paper_cell("section5", n, "memory reduction").value, 0.005);
  }
}

TEST(Formulas, SelectiveSavesWhatSection5Says) {
  for (const char* n : {"175B", "530B"}) {
    EXPECT_NEAR(100 * (1 - bytes(n, present) / bytes(n, sequence)),
                paper_cell("section5", n, "activation memory saved").value, 0.5);
    const ModelConfig& m = model(n).config;
    EXPECT_NEAR(100 * (hardware_flops_eq8(m, 1) / model_flops(m, 1) - 1),
                paper_cell("section5", n, "additional FLOPs").value, 0.05);
  }
}

TEST(Formulas, Figure7WithinTheUncertaintyOfItsPixels) {
  const Named columns[] = {{"sequence parallel", sequence},
                           {"selective recompute", selective},
                           {"sequence parallel + selective recompute", present},
                           {"full recompute", full}};
  for (const Model& m : models())
    for (const auto& [column, technique] : columns) {
      const std::string& n = m.config.name;
      EXPECT_NEAR(100 * bytes(n, technique) / bytes(n, baseline),
                  paper_cell("figure7", n, column).value, 0.12)
          << n << " " << column;
    }
}

/// Figure 1, digitized to 0.3 GiB: parameters and optimizer state; with the baseline's activations;
/// with those of the present work.
TEST(Formulas, Figure1WithinTheUncertaintyOfItsPixels) {
  struct Bar {
    const char* name;
    double state, total_baseline, total_present;
  };
  for (const auto& [name, state, total_baseline, total_present] :
       {Bar{"22B", 46.23, 105.35, 55.9}, Bar{"175B", 45.87, 112.52, 58.05},
        Bar{"530B", 31.89, 145.49, 54.83}, Bar{"1T", 32.97, 164.12, 59.48}}) {
    const Pipeline pipeline{model(name).pipeline_parallel, model(name).interleave};
    const RunConfig before = layer(name, baseline), after = layer(name, present);
    EXPECT_NEAR(state_bytes(before, pipeline) / gib, state, 0.3) << name;
    EXPECT_NEAR(
        (state_bytes(before, pipeline) + first_stage_activation_bytes(before, pipeline)) / gib,
        total_baseline, 0.5)
        << name;
    EXPECT_NEAR(
        (state_bytes(after, pipeline) + first_stage_activation_bytes(after, pipeline)) / gib,
        total_present, 0.5)
        << name;
  }
}

TEST(Formulas, InterleavingHoldsMoreLayers) {
  const RunConfig run = layer("175B", present);
  const auto one = static_cast<double>(layer_activation_bytes(run));
  EXPECT_DOUBLE_EQ(first_stage_activation_bytes(run, {8, 1}), 96 * one);
  EXPECT_DOUBLE_EQ(first_stage_activation_bytes(run, {8, 3}), 124 * one);  // 96 · (1 + 7/24)
}

/// Section 4.3 prints "under 0.01 %"; its own formula gives 0.57 %.
TEST(Formulas, OutsideTheLayersOf22B) {
  const RunConfig run = layer("22B", sequence);
  const double outside = outside_activation_bytes(run, {1, 1});
  EXPECT_NEAR(100 * outside / first_stage_activation_bytes(run, {1, 1}), 0.57, 0.005);
  const double s = 2048, b = 4, h = 6144, v = 51200, t = 8;
  EXPECT_DOUBLE_EQ(outside, s * b * h / t + 4 * s * b * h / t * (1 + v / h));
  EXPECT_DOUBLE_EQ(outside_activation_bytes(run, {4, 1}), s * b * h * 4 / t);
}

TEST(Formulas, ParametersAreTheModelsNames) {
  EXPECT_NEAR(static_cast<double>(parameters(model("22B").config)), 22e9, 0.4e9);
  EXPECT_NEAR(static_cast<double>(parameters(model("175B").config)), 175e9, 1e9);
  EXPECT_NEAR(static_cast<double>(parameters(model("530B").config)), 530e9, 1e9);
  EXPECT_NEAR(static_cast<double>(parameters(model("1T").config)), 1.008e12, 1e9);
}

/// Equation 8 charges three times the forward pass of the attention core.
TEST(Formulas, Equation8ChargesMoreThanRecomputingExecutes) {
  for (const Model& m : models()) {
    const double printed = hardware_flops_eq8(m.config, 1) / model_flops(m.config, 1) - 1;
    EXPECT_NEAR(core_recompute_fraction(m.config), printed / 3, 1e-12);
    EXPECT_NEAR(hardware_over_model_eq9(m.config) - 1, printed, 0.08 * printed);
  }
}

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
