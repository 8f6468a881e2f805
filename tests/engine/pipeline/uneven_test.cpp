#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// Stages that have unequal numbers of layers (RunConfig::stage_layers).
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::worst_error;

RunConfig of_nine(const std::vector<int64_t>& layers, int stages, int chunks) {
  RunConfig c = small_gpt();
  c.model.layers = 9;
  c.pipeline_parallel = stages;
  c.chunks = chunks;
  c.stage_layers = layers;
  c.microbatches = 2;
  if (chunks > 1) c.schedule = ScheduleKind::interleaved;
  return c;
}

TEST(UnevenStages, PartsFollowEachOtherInTheModelsOrder) {
  const RunConfig c = of_nine({3, 1, 4, 1}, 2, 2);
  const ModelPart parts[] = {ModelPart::of(c, 0, 0), ModelPart::of(c, 1, 0), ModelPart::of(c, 0, 1),
                             ModelPart::of(c, 1, 1)};
  const int64_t firsts[] = {0, 3, 4, 8}, counts[] = {3, 1, 4, 1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(parts[i].first_layer, firsts[i]);
    EXPECT_EQ(parts[i].layers, counts[i]);
    EXPECT_EQ(parts[i].first, i == 0);
    EXPECT_EQ(parts[i].last, i == 3);
  }
}

FRUGAL_LEFT_OUT(any, "UnevenStages.EqualTheSerialRun", "what Combinations have in float32, too");
TEST(UnevenStages, EqualTheSerialRun) {
  RunConfig serial = small_gpt();
  serial.model.layers = 9;
  serial.type = DType::f64;
  const MicroBatch batch = random_batch(serial, 0)[0];
  const HostTensors expected = testing::snapshot_of(serial, batch);
  for (RunConfig c : {of_nine({1, 8}, 2, 1), of_nine({4, 2, 3}, 3, 1), of_nine({3, 1, 4, 1}, 2, 2),
                      of_nine({0, 4, 5}, 3, 1), of_nine({5, 4, 0}, 3, 1), of_nine({0, 9, 0}, 3, 1),
                      of_nine({4, 0, 5}, 3, 1), of_nine({0, 4, 5, 0}, 2, 2)}) {
    c.type = DType::f64;
    const auto worst = worst_error(testing::snapshot_of(c, batch), expected);
    EXPECT_LT(worst.value, 1e-12) << worst.tensor;
  }
}

}  // namespace
}  // namespace frugal::engine
