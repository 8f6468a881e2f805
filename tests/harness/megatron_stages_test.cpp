#include <gmock/gmock.h>

#include <numeric>

#include "kernels/support/error.h"
#include "tests/harness/megatron.h"
#include "tests/support/message_of.h"

// Which layers, and which microbatches together, Megatron-LM's arguments give to stages.
namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Import of so many layers and stages, with `more` arguments.
Imported of_stages(int layers, int stages, const std::string& more) {
  return with("--num-layers " + std::to_string(layers) + " --pipeline-model-parallel-size " +
              std::to_string(stages) + " " + more);
}
std::vector<int64_t> layers_of(int layers, int stages, const std::string& more) {
  return config_of(of_stages(layers, stages, more)).stage_layers;
}

TEST(MegatronStages, CountTheEmbeddingAndTheLossAsALayerEach) {
  const std::string both =
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split";
  EXPECT_THAT(layers_of(6, 4, both), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(layers_of(7, 4, "--account-for-loss-in-pipeline-split"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(layers_of(2, 4, both), ElementsAre(0, 1, 1, 0)) << "an embedding and a loss alone";
  // 14 + 2 on 4 stages are 4 each, in 2 chunks of 2.
  const Imported chunks = of_stages(14, 4, both + " --num-layers-per-virtual-pipeline-stage 2");
  EXPECT_THAT(config_of(chunks).stage_layers, ElementsAre(1, 2, 2, 2, 2, 2, 2, 1));
  EXPECT_EQ(config_of(chunks).chunks, 2);
  EXPECT_THROW((void)of_stages(7, 4, both), InputError);
  EXPECT_THROW((void)of_stages(6, 4, both + " --decoder-first-pipeline-num-layers 1"), InputError);
  EXPECT_TRUE(has(of_stages(6, 1, both).same, "--account-for-loss-in-pipeline-split"));
}

TEST(MegatronStages, CountModulesByTheirNamesAsDeepSpeedDoes) {
  const std::string both = "--pp-partition-method type:transformer|embedding";
  const auto counts = layers_of(70, 12, both);
  ASSERT_EQ(counts.size(), 12);
  EXPECT_EQ(counts.front(), 5);
  EXPECT_EQ(counts.back(), 5);
  EXPECT_EQ(counts[6], 6);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 70);
  EXPECT_THAT(layers_of(7, 4, both + " --untie-embeddings-and-output-weights"),
              ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(layers_of(8, 4, "--pp-partition-method type:transformer"), ElementsAre(2, 2, 2, 2));
  EXPECT_TRUE(
      has(of_stages(8, 4, "--pp-partition-method parameters").missing, "--pp-partition-method"));
  EXPECT_THAT(message_of<InputError>([&] { (void)of_stages(8, 4, both); }),
              HasSubstr("--stage-layers"));
}

TEST(MegatronStages, AreWrittenAsALayout) {
  const std::string layout = "--pipeline-model-parallel-layout ";
  EXPECT_THAT(layers_of(5, 4, layout + "Et|(tt|)*2L"), ElementsAre(1, 2, 2, 0));
  const Imported chunks = of_stages(6, 2, layout + "E,t*2|t|(t,|)*1,tt,L");
  EXPECT_THAT(config_of(chunks).stage_layers, ElementsAre(2, 1, 1, 2));
  EXPECT_EQ(config_of(chunks).chunks, 2);
  EXPECT_EQ(name_of(config_of(chunks).schedule), "interleaved");
  for (const char* wrong : {"Et|t|t|tL", "Et|tt|t|t", "tE|tt|t|tL", "Et|tt|tm|tL", "Et|(tt|t|tL",
                            "Et|tt|t)|tL", "Et|tt|tt*9999999999L", "Et|tt|tL"})
    EXPECT_THROW((void)of_stages(5, 4, layout + wrong), InputError) << wrong;
}

TEST(MegatronStages, TakeMicrobatchesInGroups) {
  const std::string group =
      "--num-layers-per-virtual-pipeline-stage 1 "
      "--microbatch-group-size-per-virtual-pipeline-stage ";
  const auto of_batch = [&](int microbatches, int size) {
    return of_stages(8, 4,
                     "--global-batch-size " + std::to_string(2 * microbatches) + " " + group +
                         std::to_string(size));
  };
  const std::string said = "--microbatch-group-size-per-virtual-pipeline-stage";
  EXPECT_TRUE(has(of_batch(5, 5).mapped, said));
  EXPECT_TRUE(has(of_batch(8, 4).mapped, said));
  EXPECT_TRUE(has(of_batch(14, 5).mapped, said)) << "5 + 5 + 4";
  EXPECT_TRUE(has(of_batch(8, 8).missing, said)) << "frugal's are of 4";
  EXPECT_TRUE(has(of_batch(10, 6).missing, said)) << "6 + 4, and frugal's 5 + 5";
  EXPECT_THROW((void)of_batch(8, 3), InputError);
  EXPECT_THROW((void)of_batch(5, 6), InputError);
}

}  // namespace
}  // namespace frugal::harness
