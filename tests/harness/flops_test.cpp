#include "harness/measure/flops.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/cluster/cluster.h"
#include "engine/train/module_run.h"
#include "harness/settings/models.h"
#include "kernels/virtual/machine.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

TEST(Flops, AreThePapersEquations) {
  const ModelConfig m = find_model("530B");
  const double s = 2048, h = 20480, v = 51200, l = 105, b = 280;
  EXPECT_NEAR(model_flops(m, b) / (72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l))),
              1, 1e-12);
  // Equation 9, to the order to which the paper derives it.
  EXPECT_NEAR(hardware_flops_eq8(m, b) / model_flops(m, b), 1 + s / (6 * h), 1e-3);
  // The logits are what a model has besides its layers: 6 b s h v.
  EXPECT_NEAR((model_flops(m, b) - l * module_flops(m, Module::layer, b)) / (6 * b * s * h * v), 1,
              1e-9);
}

/// Products of a layer's weights, forward and for both gradients.
double of_weights(const ModelConfig& m, double tokens) {
  const double mlp = is_gated(m.mlp) ? 3 : 2;
  return 6 * tokens * static_cast<double>(m.hidden) *
         (static_cast<double>(m.qkv_size() + m.query_size()) +
          mlp * static_cast<double>(m.intermediate_size()));
}

/// Of so many positions, each of which sees itself and those before it, at most `window`; 0: all.
double pairs_counted(int64_t positions, int64_t window) {
  static std::map<std::pair<int64_t, int64_t>, double> known;
  const auto [found, is_new] = known.try_emplace({positions, window});
  if (is_new)
    for (int64_t query = 0; query < positions; ++query)
      for (int64_t key = 0; key <= query; ++key)
        if (window == 0 || query - key < window) ++found->second;
  return found->second;
}

TEST(Flops, OfRotaryModelsAreOfThePairsThatTheMaskLeaves) {
  for (const char* name : {"llama3-8b", "mistral-7b", "gemma-2-9b"})
    for (const int64_t s : {1, 100, 4096, 5000}) {
      ModelConfig m = find_model(name);
      m.sequence = s;
      double expected = 6 * static_cast<double>(s * m.hidden * m.vocabulary);
      for (int64_t layer = 0; layer < m.layers; ++layer)
        expected += of_weights(m, static_cast<double>(s)) +
                    12 * pairs_counted(s, m.window_of(layer)) * static_cast<double>(m.query_size());
      EXPECT_NEAR(model_flops(m, 3) / (3 * expected), 1, 1e-12) << name << ", s " << s;
      EXPECT_EQ(model_formula(m), visible_pairs_id);
    }
}

/// Without recomputation a device executes what the model needs, but for one of fused attention's
/// products: scores are computed again in its backward pass.
TEST(Flops, OfRotaryModelsAreThoseThatADeviceExecutes) {
  for (const char* name : {"llama3-8b", "mistral-7b", "gemma-2-9b"}) {
    RunConfig run;
    run.model = find_model(name);
    run.model.sequence = 6000;
    run.attention = AttentionKind::fused;
    const auto cluster = make_virtual_cluster(run, find_machine("h200-hgx"));
    const ModuleMemory executed = ModuleRun(*cluster, Module::layer).memory();
    const double needed = module_flops(run.model, Module::layer, 1),
                 attention = needed - of_weights(run.model, 6000);
    EXPECT_NEAR((executed.forward_flops + executed.backward_flops) / (needed + attention / 6), 1,
                1e-9)
        << name;
  }
}

TEST(Flops, DeviceHoursAreThoseOfAllDevicesForATokenOfAllReplicas) {
  RunConfig run;
  run.model.sequence = 1024;
  run.tensor_parallel = 2;
  run.pipeline_parallel = 4;
  run.data_parallel = 8;
  run.micro_batch = 2;
  run.microbatches = 16;
  // 64 devices for 3 s; 8 replicas of 16 microbatches of 2 sequences.
  EXPECT_NEAR(device_hours_per_billion_tokens(run, 3), 64 * 3 / 262144.0 * 1e9 / 3600, 1e-9);
}

}  // namespace
}  // namespace frugal::harness
