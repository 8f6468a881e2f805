#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "tests/engine/support.h"

// The whole model's gradient against central differences of its loss, in float64 with dropout on.
namespace frugal {
namespace {

using testing::small_bert;
using testing::small_gpt;

double loss_with(Trainer& trainer, const HostTensors& weights, const MicroBatch& batch) {
  trainer.load_weights(weights);
  return trainer.snapshot(batch).at("loss").values[0];
}

class Gradient : public ::testing::TestWithParam<std::tuple<Objective, AttentionKind>> {};

TEST_P(Gradient, EqualsCentralDifferences) {
  const auto [objective, attention] = GetParam();
  RunConfig c = objective == Objective::masked_token ? small_bert() : small_gpt();
  c.attention = attention;
  c.model.hidden = 16;
  c.model.heads = 2;
  c.model.sequence = 8;
  c.model.vocabulary = 16;
  c.type = DType::f64;
  const MicroBatch batch = random_batch(c, 0)[0];
  const auto cluster = make_cpu_cluster(c, 2);
  Trainer trainer(*cluster, c, {});
  const HostTensors start = trainer.snapshot(batch);

  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr double step = 1e-5;
  constexpr int samples = 4;
  int checked = 0;
  for (const auto& [name, gradient] : start) {
    if (name.rfind("gradient/", 0) != 0) continue;
    const std::string weight = "weight/" + name.substr(9);
    double magnitude = 0;
    for (const double g : gradient.values) magnitude = std::max(magnitude, std::abs(g));
    ASSERT_GT(magnitude, 0) << name;
    for (int k = 0; k < samples; ++k, ++checked) {
      const size_t i = random() % gradient.values.size();
      HostTensors moved = start;
      moved[weight].values[i] = start.at(weight).values[i] + step;
      const double up = loss_with(trainer, moved, batch);
      moved[weight].values[i] = start.at(weight).values[i] - step;
      const double down = loss_with(trainer, moved, batch);
      EXPECT_NEAR((up - down) / (2 * step) / magnitude, gradient.values[i] / magnitude, 1e-6)
          << name << "[" << i << "]";
    }
  }
  EXPECT_EQ(checked, samples * 28);  // 2 layers of 12 weights, 2 embeddings, the final norm's 2
}

INSTANTIATE_TEST_SUITE_P(
    Models, Gradient,
    ::testing::Combine(::testing::Values(Objective::next_token, Objective::masked_token),
                       ::testing::Values(AttentionKind::separate, AttentionKind::fused)));

}  // namespace
}  // namespace frugal
