#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/import/megatron_table.h"
#include "harness/settings/field.h"
#include "tests/harness/megatron.h"

// What the tables of Megatron-LM's arguments say.
namespace frugal::harness {
namespace {

TEST(MegatronTables, HaveEachNameOnceAndOnlyFieldsThereAre) {
  std::set<std::string_view> names;
  for (const MegatronArgument& line : megatron_fields()) {
    if (!line.key.empty()) (void)field_of(line.key);
    for (const std::string_view name : line.names) EXPECT_TRUE(names.insert(name).second) << name;
  }
  for (const auto* table : {&megatron_without_effect(), &megatron_values(), &megatron_missing(),
                            &megatron_other_models()})
    for (const KnownParts& line : *table)
      for (const std::string_view name : line.names) {
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_TRUE(name.starts_with("--")) << name;
        EXPECT_EQ(find_megatron_field(name), nullptr) << name;
        EXPECT_FALSE(name.ends_with("*")) << name << " swallows what it does not name";
      }
  for (const DependingParts& line : megatron_depending()) {
    for (const std::string_view name : line.parts.names)
      EXPECT_TRUE(names.insert(name).second && name.starts_with("--")) << name;
    // What it depends on is an argument of a table, or one with a value.
    for (const std::string_view on : line.on) {
      const std::string_view name = on.substr(0, on.find(' '));
      EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](std::string_view known) {
        return known.substr(0, known.find(' ')) == name;
      })) << name;
    }
  }
}

TEST(MegatronTables, NameNothingThatTakesMemoryOrTimeAmongWhatTakesNone) {
  for (const char* name :
       {"--num-distributed-optimizer-instances 8", "--attention-softmax-in-fp32", "--use-mup",
        "--log-params-norm", "--log-num-zeros-in-grad", "--timing-log-level 2", "--profile",
        "--record-memory-history", "--train-sync-interval 1", "--ddp-average-in-collective",
        "--no-gradient-reduce-div-fusion", "--tp-comm-overlap", "--use-nccl-ub",
        "--vocab-extra-ids 100", "--openai-gelu", "--distributed-backend gloo",
        "--no-clone-scatter-output-in-embedding", "--use-checkpoint-args"})
    EXPECT_FALSE(has(with(std::string("--attention-backend unfused --use-distributed-optimizer "
                                      "--global-batch-size 16 ") +
                              name,
                          of_ranks(8))
                         .same,
                     name))
        << name;
}

/// Defaults of megatron/training/arguments.py change nothing; other values may.
TEST(MegatronTables, KnowDefaults) {
  for (const char* argument : {"--img-h 224",
                               "--img-w 224",
                               "--num-channels 3",
                               "--patch-dim 16",
                               "--num-classes 1000",
                               "--iter-per-epoch 1250",
                               "--mask-factor 1.0",
                               "--head-lr-mult 1.0",
                               "--dino-local-img-size 96",
                               "--dino-local-crops-number 10",
                               "--dino-head-hidden-size 2048",
                               "--dino-bottleneck-size 256",
                               "--dino-freeze-last-layer 1",
                               "--dino-teacher-temp 0.07",
                               "--dino-warmup-teacher-temp 0.04",
                               "--dino-warmup-teacher-temp-epochs 30",
                               "--indexer-batch-size 128",
                               "--indexer-log-interval 1000",
                               "--query-in-block-prob 0.1",
                               "--biencoder-projection-dim 0",
                               "--classes-fraction 1.0",
                               "--data-per-class-fraction 1.0",
                               "--glu-linear-offset 0.0",
                               "--rotary-percent 1.0",
                               "--mlp-chunks-for-training 1"}) {
    EXPECT_TRUE(has(with(argument).same, argument)) << argument;
    EXPECT_FALSE(has(with(std::string(argument) + "7").same, argument)) << argument;
  }
}

TEST(Megatron, ReadsPartsOfWhatIsNotThereAsNothing) {
  for (const auto& [part, on] : std::map<std::string, std::string>{
           {"--moe-router-topk 2", "--num-experts 8"},
           {"--fp8-margin 1", "--fp8-format hybrid"},
           {"--muon-num-ns-steps 3", "--optimizer muon"},
           {"--wgrad-deferral-limit 2", "--defer-embedding-wgrad-compute"},
           {"--main-grads-dtype bf16", "--use-precision-aware-optimizer"}}) {
    EXPECT_TRUE(has(with(part).same, part)) << part;
    EXPECT_TRUE(has(with(part + " " + on).missing, part)) << part;
  }
}

}  // namespace
}  // namespace frugal::harness
