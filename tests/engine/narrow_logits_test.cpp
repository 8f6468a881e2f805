#include <gtest/gtest.h>

#include "tests/engine/support.h"

// Logits in the type of the weights, with their gradient in their place.
namespace frugal::engine {
namespace {

using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;
using testing::snapshot_of;
using testing::worst_error;

RunConfig with_logits(RunConfig config, DType type, bool narrow) {
  config.type = type;
  config.narrow_logits = narrow;
  return config;
}

MicroBatch batch_for(const RunConfig& config) {
  MicroBatch batch = random_batch(config, 0)[0];
  for (size_t i = 0; i < batch.labels.size(); i += 5) batch.labels[i] = CrossEntropy::ignored_label;
  return batch;
}

/// They are the same where no type is narrower; in bf16 they are off by half a unit in the last
/// place, 2^-9, and so are their gradients. However a run is divided, it rounds the same logits.
TEST(NarrowLogits, AreTheWideOnesRounded) {
  for (const auto model : {small_gpt, small_llama, small_gemma}) {
    const MicroBatch batch = batch_for(model());
    const auto exact = worst_error(snapshot_of(with_logits(model(), DType::f64, true), batch),
                                   snapshot_of(with_logits(model(), DType::f64, false), batch));
    EXPECT_LT(exact.value, 1e-14) << exact.tensor;
    RunConfig config = with_logits(model(), DType::bf16, true);
    const HostTensors ours = snapshot_of(config, batch);
    const HostTensors theirs = snapshot_of(with_logits(model(), DType::bf16, false), batch);
    EXPECT_LT(worst_error(ours, theirs, "logits").value, 0x1p-8);
    EXPECT_NE(worst_error(ours, theirs, "logits").value, 0) << "they were rounded";
    EXPECT_LT(worst_error(ours, theirs, "loss").value, 0x1p-9);
    const auto error = worst_error(ours, theirs, "gradient/");
    EXPECT_LT(error.value, 0x1p-5) << error.tensor;
    config.head_chunks = config.tensor_parallel = 2;
    config.head_tiles = 3;
    const auto divided = worst_error(snapshot_of(config, batch), ours);
    EXPECT_LT(divided.value, 0x1p-5) << divided.tensor;
  }
}

TEST(NarrowLogits, LoseNothingInAnEvaluation) {
  const auto evaluated = [](bool narrow) {
    const RunConfig c = with_logits(small_gpt(), DType::bf16, narrow);
    const auto cluster = make_cpu_cluster(c, 2);
    return Trainer(*cluster, c, {}).evaluate(random_batch(c, 0));
  };
  EXPECT_NEAR(evaluated(true) / evaluated(false), 1, 0x1p-9);
}

/// Bytes of the head's operations beside the products' own operands, for s · b · v logits.
double logits_bytes(const RunConfig& config) {
  const auto cluster = testing::counted_steps(config);
  double bytes = 0;
  for (size_t i = 0; i < DeviceWork::kinds; ++i)
    if (DeviceWork::names.at(i).starts_with("cross-entropy"))
      bytes += cluster->rank(0).device.work().operations.at(i).cost.bytes;
  return bytes;
}

TEST(NarrowLogits, AreReadAndWrittenOnce) {
  RunConfig config = with_logits(small_gpt(), DType::bf16, false);
  config.model.vocabulary = 32768;
  const double logits = 32 * 2 * 32768;
  // Statistics read them, the gradient's operation too, which writes two bytes for each.
  EXPECT_NEAR(logits_bytes(config) / logits, 4 + 4 + 2, 0.01);
  config.narrow_logits = true;
  EXPECT_NEAR(logits_bytes(config) / logits, 2 + 2, 0.01);
  config.head_tiles = 2;
  EXPECT_NEAR(logits_bytes(config) / logits, 2 + 2 + 2, 0.01) << "a row is not whole";
}

}  // namespace
}  // namespace frugal::engine
