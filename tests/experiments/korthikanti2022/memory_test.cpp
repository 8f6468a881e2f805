#include <gmock/gmock.h>

#include "experiments/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/paper.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

/// Observes `bytes(config)` activations and the FLOPs of a layer that computes QKᵀ and
/// the product with V again where recomputation is selective.
template <class Bytes>
auto observing(const Bytes& bytes) {
  return [bytes](Record& r) {
    BytesPerKind held{};
    held[static_cast<size_t>(Kind::activation)] = bytes(r.config);
    held[static_cast<size_t>(Kind::statistics)] = 7;
    r.memory = Memory{held, {}, 0};
    const auto& m = r.config.model;
    const auto core = 4.0 * static_cast<double>(r.config.micro_batch * m.sequence * m.sequence) *
                      static_cast<double>(m.hidden);
    r.flops = Flops{};
    r.flops->hardware = module_flops(m, Module::layer, static_cast<double>(r.config.micro_batch)) +
                        (r.config.recompute == Recompute::selective ? core : 0);
  };
}
const auto as_printed = observing(layer_activation_bytes);

TEST(MemoryArtifacts, BytesOfTheFormulaReproduceEveryClaimButEquation8) {
  for (const Artifact* artifact : {&table2(), &figure7(), &section5()}) {
    for (const Claim& claim : artifact->claims(records_of(*artifact, {}, as_printed))) {
      const bool contradicts =
          claim.id.starts_with("equation-8") && claim.source != Source::formula;
      EXPECT_EQ(claim.verdict(), contradicts ? Verdict::not_reproduced : Verdict::reproduced)
          << claim.id << " on " << claim.on;
      EXPECT_EQ(claim.expected, contradicts) << claim.id;
      EXPECT_FALSE(claim.justification.empty()) << claim.id;
      EXPECT_EQ(claim.reason.empty(), !contradicts) << claim.id;
    }
  }
}

/// The paper's bytes are those of its models; those of an eighth of them are a formula's.
TEST(MemoryArtifacts, BytesOfAnotherSizeStandBesideTheFormulaAtThatSize) {
  for (const Cell& c : table2().cells(records_of(table2(), {}, as_printed))) {
    if (c.column.ends_with(", statistics")) continue;
    EXPECT_EQ(c.paper.has_value(), c.scale == 1);
    EXPECT_EQ(c.formula.has_value(), c.scale != 1);
    EXPECT_EQ(c.reference(), c.value) << c.row << " " << c.column;
    EXPECT_EQ(c.error_percent(), 0);
  }
  for (const Claim& c : table2().claims(records_of(table2(), {}, as_printed)))
    EXPECT_EQ(c.paper.has_value(), c.scale == 1);
}

/// Results of programs that had no fused attention lack nothing of the paper's.
TEST(Artifacts, WhatIsNotThePapersAndWasNotRunIsLeftOut) {
  for (const Artifact* artifact : {&table4(), &figure7()}) {
    Records old;
    for (const Case& c : artifact->cases({})) {
      Record r = record_of(*artifact, c);
      as_printed(r);
      for (const char* time : {metric::forward_time, metric::backward_time})
        r.metrics[time] = {"s", {1}};
      if (c.config.attention == AttentionKind::separate && !c.id.ends_with("/full"))
        old.add(std::move(r));
    }
    bool full = false;
    for (const Cell& c : artifact->cells(old)) {
      EXPECT_FALSE((c.row + c.column).find("fused") != std::string::npos)
          << c.row << " " << c.column;
      full = full || c.reason.ends_with("full was not run");
    }
    EXPECT_TRUE(full) << "what is the paper's is missing, and said to be";
  }
}

TEST(MemoryArtifacts, OneByteMoreIsNotTable2) {
  const auto off = observing([](const RunConfig& run) { return layer_activation_bytes(run) + 1; });
  size_t claims = 0;
  for (const Claim& claim : table2().claims(records_of(table2(), {}, off))) {
    EXPECT_EQ(claim.verdict(), Verdict::not_reproduced) << claim.id;
    ++claims;
  }
  EXPECT_EQ(claims, 2U * 6 * 4);
}

TEST(MemoryArtifacts, ScalesThatDoNotDivideAreSkipped) {
  Selection third;
  third.scale = 3;
  for (const Case& c : table2().cases(third))
    EXPECT_THAT(c.skip, ::testing::HasSubstr("divisible"));
  Selection sixty_fourth;  // only 175B's heads divide what is left of the hidden size
  sixty_fourth.scale = 64;
  for (const Case& c : table2().cases(sixty_fourth))
    EXPECT_EQ(c.skip.empty(), c.config.model.name == "175B") << c.skip;
}

TEST(MemoryArtifacts, ScaledCasesKeepThePapersRatios) {
  for (const Case& c : table2().cases({})) {
    ASSERT_TRUE(c.skip.empty()) << c.skip;
    const ModelConfig& whole = model(c.config.model.name).config;
    EXPECT_EQ(c.config.model.hidden * c.scale, whole.hidden);
    EXPECT_EQ(c.config.model.heads, whole.heads);
    EXPECT_TRUE(c.config.stored_masks);
    EXPECT_EQ(c.config.type, DType::bf16);
    EXPECT_EQ(c.scale, c.on == "cpu" ? 8 : 1);
  }
}

TEST(Table5, PrintedTimesGiveTheUtilizationsWithinTheirRounding) {
  for (const Claim& claim : table5().claims({})) {
    EXPECT_EQ(claim.verdict(), Verdict::reproduced) << claim.id;
    EXPECT_EQ(claim.source, Source::formula);
    // The time of the 22B model is so short that its rounding alone moves MFU by 0.2 points.
    const bool rounded_away = claim.id.starts_with("table5/22B");
    EXPECT_NEAR(claim.value.value(), claim.paper.value(), rounded_away ? 0.2 : 0.1) << claim.id;
  }
  EXPECT_EQ(table5().claims({}).size(), 12U);
  EXPECT_EQ(table5().cases({.programs = Programs::frugal}).size(), 8U) << "whole iterations";
}

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
