#include <gtest/gtest.h>

#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

// Logits in the type of the weights, with their gradient in their place.
namespace frugal::engine {
namespace {

using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;
using testing::snapshot_of;
using testing::worst_error;

RunConfig narrow(RunConfig config, DType type) {
  config.type = type;
  config.narrow_logits = true;
  return config;
}

RunConfig wide(RunConfig config, DType type) {
  config.type = type;
  return config;
}

MicroBatch batch_for(const RunConfig& config) {
  MicroBatch batch = random_batch(config, 0)[0];
  for (size_t i = 0; i < batch.labels.size(); i += 5) batch.labels[i] = CrossEntropy::ignored_label;
  return batch;
}

std::vector<RunConfig> all_models() { return {small_gpt(), small_llama(), small_gemma()}; }

TEST(NarrowLogits, AreTheWideOnesWhereNoTypeIsNarrower) {
  for (const RunConfig& config : all_models()) {
    const MicroBatch batch = batch_for(config);
    const auto error = worst_error(snapshot_of(narrow(config, DType::f64), batch),
                                   snapshot_of(wide(config, DType::f64), batch));
    EXPECT_LT(error.value, 1e-14) << error.tensor;
  }
}

/// Logits are off by half a unit of bf16 in the last place, 2^-9, and so are their gradients.
TEST(NarrowLogits, AreTheWideOnesRounded) {
  for (const RunConfig& config : all_models()) {
    const MicroBatch batch = batch_for(config);
    const HostTensors ours = snapshot_of(narrow(config, DType::bf16), batch);
    const HostTensors theirs = snapshot_of(wide(config, DType::bf16), batch);
    EXPECT_LT(worst_error(ours, theirs, "logits").value, 0x1p-8);
    EXPECT_NE(worst_error(ours, theirs, "logits").value, 0) << "they were rounded";
    EXPECT_LT(worst_error(ours, theirs, "loss").value, 0x1p-9);
    const auto error = worst_error(ours, theirs, "gradient/");
    EXPECT_LT(error.value, 0x1p-5) << error.tensor;
  }
}

/// However a run is divided, it rounds the same logits.
TEST(NarrowLogits, AreTheSameInPartsAndInParallel) {
  for (const RunConfig& config : all_models()) {
    const RunConfig whole = narrow(config, DType::bf16);
    RunConfig divided = whole;
    divided.head_chunks = divided.tensor_parallel = 2;
    divided.head_tiles = 3;
    const MicroBatch batch = batch_for(whole);
    const auto error = worst_error(snapshot_of(divided, batch), snapshot_of(whole, batch));
    EXPECT_LT(error.value, 0x1p-5) << error.tensor;
  }
}

TEST(NarrowLogits, LoseNothingInAnEvaluation) {
  const RunConfig config = narrow(small_gpt(), DType::bf16);
  const auto evaluated = [&](const RunConfig& c) {
    const auto cluster = make_cpu_cluster(c, 2);
    return Trainer(*cluster, c, {}).evaluate(random_batch(c, 0));
  };
  EXPECT_NEAR(evaluated(config) / evaluated(wide(small_gpt(), DType::bf16)), 1, 0x1p-9);
}

/// Bytes of the head's operations beside the products' own operands, for s · b · v logits.
double logits_bytes(const RunConfig& config) {
  const auto cluster = make_virtual_cluster(config, find_machine("h200-hgx"));
  Trainer trainer(*cluster, config, {});
  (void)trainer.step(Batch(static_cast<size_t>(config.batch_microbatches())));
  double bytes = 0;
  for (size_t i = 0; i < DeviceWork::kinds; ++i)
    if (DeviceWork::names.at(i).starts_with("cross-entropy"))
      bytes += trainer.work().done.operations.at(i).cost.bytes;
  return bytes;
}

TEST(NarrowLogits, AreReadAndWrittenOnce) {
  RunConfig config = small_gpt();
  config.model.vocabulary = 32768;
  const double logits = 32 * 2 * 32768;
  // Statistics read them, the gradient's operation too, which writes two bytes for each.
  EXPECT_NEAR(logits_bytes(wide(config, DType::bf16)) / logits, 4 + 4 + 2, 0.01);
  EXPECT_NEAR(logits_bytes(narrow(config, DType::bf16)) / logits, 2 + 2, 0.01);
  config.head_tiles = 2;
  EXPECT_NEAR(logits_bytes(narrow(config, DType::bf16)) / logits, 2 + 2 + 2, 0.01)
      << "a row is not whole";
}

}  // namespace
}  // namespace frugal::engine
