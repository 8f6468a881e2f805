#include "harness/explain/attribution.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// A layer's activations on a virtual machine, whose "paper" is as much as is asked for.
class Layer : public Artifact {
 public:
  explicit Layer(double paper, std::string program = "")
      : paper_(paper), program_(std::move(program)) {}

  std::string id() const override { return "paper/layer"; }
  std::string title() const override { return "a layer"; }
  std::string program() const override { return program_; }
  std::vector<Case> cases(const Selection& selection) const override {
    if (!selection.virtual_machine) return {};
    Case c{.id = "layer", .on = "virtual:h200-hgx"};
    c.config.model = {.name = "test", .layers = 1, .hidden = 64, .heads = 4, .sequence = 32};
    c.config.model.vocabulary = 64;
    c.config.model.dropout = 0;
    c.config.model.norm = NormKind::rms;
    c.config.model.mlp = MlpKind::swiglu;
    c.config.model.intermediate = 96;
    c.config.type = DType::bf16;
    return {c};
  }
  std::vector<Cell> cells(const Records& records) const override {
    std::vector<Cell> all;
    for (const Record& record : records.all()) {
      Cell& cell = all.emplace_back();
      cell.artifact = id();
      cell.row = "layer";
      cell.column = "activations";
      cell.unit = "bytes";
      cell.paper = paper_;
      cell.value = static_cast<double>(
          record.memory.value().after_forward.value()[static_cast<size_t>(Kind::activation)]);
    }
    return all;
  }
  std::vector<Claim> claims(const Records&) const override { return {}; }

 private:
  double paper_;
  std::string program_;
};

constexpr double hidden = 32 * 64, inner = 32 * 96;

/// Behaviours of a layer that do not touch each other: each adds the same in all three ways.
TEST(Attribution, IsASumOfWhatBehavioursAdd) {
  const Layer layer(1e6, "float32-norms+separate-activation");
  std::vector<std::string> run;
  const AttributionRuns runs(layer, "");
  const std::vector<Attribution> all =
      runs.run(runs.own(), [&](const std::string& one) { run.push_back(one); });
  EXPECT_EQ(run.size(), runs.count());
  EXPECT_EQ(run.size(), 3U * 2);
  EXPECT_EQ(run.front(), "paper/layer up to float32-norms");
  EXPECT_EQ(run.back(), "paper/layer without separate-activation");
  ASSERT_EQ(all.size(), 1U);
  const Attribution& one = all.front();
  ASSERT_EQ(one.terms.size(), 2U);
  EXPECT_EQ(one.terms[0].behaviour.behaviour->name, "float32-norms");
  // Each of two norms keeps 4 bytes and 2 in place of its input's 2. The residual stays the
  // first's.
  EXPECT_EQ(one.terms[0].added, 2 * (4 + 2 - 2) * hidden);
  EXPECT_EQ(one.terms[1].added, 2 * inner);
  for (const Term& term : one.terms) {
    EXPECT_EQ(term.alone, term.added);
    EXPECT_EQ(term.without, term.added);
    EXPECT_TRUE(term.counts());
  }
  EXPECT_EQ(one.program.value(), one.frugal.value() + *one.terms[0].added + *one.terms[1].added);
  EXPECT_EQ(one.unexplained(), 1e6 - one.program.value());
}

TEST(Attribution, SaysWhatDoesNothing) {
  const Layer layer(1e6);
  const AttributionRuns runs(layer, "causal-masks");
  const auto all = runs.run(runs.own(), [](const std::string&) {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(all[0].terms[0].counts());
  EXPECT_TRUE(runs.run({}, [](const std::string&) {}).empty()) << "what is not asked for";
}

TEST(Attribution, NeedsAProgram) {
  EXPECT_THAT([] { (void)AttributionRuns(Layer(1), ""); },
              ::testing::ThrowsMessage<InputError>(::testing::HasSubstr("no program is known")));
}

}  // namespace
}  // namespace frugal::harness
