#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// The whole model's gradient against central differences of its loss, in float64 with dropout on.
namespace frugal::engine {
namespace {

using testing::small_bert;
using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;

double loss_with(Trainer& trainer, const HostTensors& weights, const MicroBatch& batch) {
  trainer.load_weights(weights);
  return trainer.snapshot(batch).at("loss").values[0];
}

struct GradientCase {
  std::string name;
  RunConfig config;
  int weights;  ///< tensors of the model
};

void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.name; }

std::vector<GradientCase> gradient_cases() {
  constexpr int of_gpt = 2 * 12 + 2 + 2;  // layers, embeddings, the final norm's two
  std::vector<GradientCase> all = {{"gpt", small_gpt(), of_gpt},
                                   {"bert", small_bert(), of_gpt},
                                   {"llama", small_llama(), 2 * 6 + 2 + 1},
                                   {"gemma", small_gemma(), 2 * 8 + 1 + 1}};
  RunConfig c = small_gpt();
  c.attention = AttentionKind::fused;
  all.push_back({"gpt_fused", c, of_gpt});
  c = small_bert();
  c.attention = AttentionKind::fused;
  all.push_back({"bert_fused", c, of_gpt});
  c = small_llama();
  c.attention = AttentionKind::separate;
  all.push_back({"llama_separate", c, 2 * 6 + 2 + 1});
  return all;
}

class Gradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradient, EqualsCentralDifferences) {
  RunConfig c = GetParam().config;
  c.model.hidden = 16;
  c.model.heads = c.model.kv_heads > 0 ? 4 : 2;
  c.model.window = c.model.window > 0 ? 3 : 0;
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
  EXPECT_EQ(checked, samples * GetParam().weights);
}

FRUGAL_LEFT_OUT(thread, "Models/Gradient.*", "one rank: one thread");
INSTANTIATE_TEST_SUITE_P(Models, Gradient, ::testing::ValuesIn(gradient_cases()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::engine
