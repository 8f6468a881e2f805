#include "tests/harness/megatron.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(Megatron, NamesWhatIsNotKnown) {
  const Imported in = with("--num-layer 3 --moe-router-topk 2 --save x --qk-layernorm --something");
  ASSERT_EQ(in.unknown.size(), 2);
  EXPECT_EQ(in.unknown[0].said, "--num-layer 3");
  EXPECT_THAT(in.unknown[0].what, HasSubstr("--num-layers"));
  EXPECT_TRUE(has(in.missing, "--qk-layernorm"));
  EXPECT_TRUE(has(in.same, "--moe-router-topk 2") && has(in.same, "--save x"));
  EXPECT_TRUE(in.other_model.empty());
  EXPECT_EQ(with("--num-experts 8").other_model, Words{"--num-experts"});
}

TEST(Megatron, MakesMicrobatchesOfTheGlobalBatch) {
  EXPECT_THAT(message_of<InputError>([] { (void)with("--global-batch-size 49"); }),
              AllOf(HasSubstr("--global-batch-size 49"), HasSubstr("2 x 1")));
  EXPECT_THAT(
      message_of<InputError>([] { (void)with("--pipeline-model-parallel-size 3", of_ranks(8)); }),
      AllOf(HasSubstr("8 ranks"), HasSubstr("--world-size")));
}

TEST(Megatron, ReadsWindowsThatLookBack) {
  EXPECT_THAT(message_of<InputError>([] { (void)with("--window-size 128,64"); }),
              HasSubstr("--window-size 128,0"));
}

TEST(Megatron, AsksForAVocabularyThatATokenizersFilesSay) {
  const std::string without =
      smallest_megatron.substr(0, smallest_megatron.find("--vocab-size")) + "--bf16 ";
  EXPECT_THAT(message_of<InputError>(
                  [&] { (void)imported(without + "--tokenizer-type SentencePieceTokenizer"); }),
              AllOf(HasSubstr("SentencePieceTokenizer"), HasSubstr("--vocabulary")));
}

TEST(Megatron, DividesOnlyWhatIsDivided) {
  EXPECT_TRUE(has(with("--data-parallel-sharding-strategy optim").same,
                  "--data-parallel-sharding-strategy"));
  EXPECT_THROW((void)with("--zero-stage 4"), InputError);
  EXPECT_TRUE(has(with("--num-distributed-optimizer-instances 8", of_ranks(8)).same,
                  "--num-distributed-optimizer-instances 8"));
  EXPECT_THAT(message_of<InputError>([] {
                (void)with("--use-distributed-optimizer --num-distributed-optimizer-instances 3",
                           of_ranks(8));
              }),
              HasSubstr("must divide"));
}

TEST(Megatron, RefusesNamesThatDisagree) {
  for (const char* wrong : {"--glu-activation gelu", "--glu-activation swiglu --swiglu",
                            "--num-key-value-heads 2 --num-query-groups 4", "--batch-size 3",
                            "--seq-length 32 --encoder-seq-length 64"})
    EXPECT_THROW((void)with(wrong), InputError) << wrong;
}

TEST(Megatron, ReadsListsInBrackets) {
  EXPECT_EQ(config_of(with("--recompute-granularity selective --recompute-modules "
                           "\"['layernorm', 'mlp']\""))
                .recompute_modules,
            (LayerModules{LayerModule::norm, LayerModule::mlp}));
}

TEST(Megatron, ReadsRingsOfGroupsThatExchangeHeads) {
  const std::string eight = "--context-parallel-size 8 ",
                    sizes = "--hierarchical-context-parallel-sizes ";
  const Imported ring = with(eight + "--cp-comm-type p2p " + sizes + "2 4");
  EXPECT_EQ(config_of(ring).ulysses_size, 0);
  EXPECT_TRUE(has(ring.same, "--hierarchical-context-parallel-sizes"));
  EXPECT_TRUE(has(with(sizes + "2 4").same, "--hierarchical-context-parallel-sizes"));
  const auto says = [](const std::string& text) {
    return message_of<InputError>([&] { (void)with(text); });
  };
  EXPECT_THAT(says(eight + "--cp-comm-type a2a+p2p"),
              AllOf(HasSubstr("--cp-comm-type a2a+p2p"), HasSubstr("sizes, which is missing")));
  for (const char* wrong : {"2 2", "8", "2 2 2"})
    EXPECT_THAT(says(eight + "--cp-comm-type a2a+p2p " + sizes + wrong),
                AllOf(HasSubstr(wrong), HasSubstr("context-parallel size (8)")));
}

TEST(Megatron, SaysHowItStandsIn) {
  EXPECT_TRUE(
      has(with("--position-embedding-type alibi").missing, "--position-embedding-type alibi"));
  const Imported half = with("--fp16");
  const auto type = std::find_if(half.mapped.begin(), half.mapped.end(),
                                 [](const auto& p) { return p.said == "--fp16"; });
  ASSERT_NE(type, half.mapped.end());
  EXPECT_THAT(type->what, HasSubstr("no fp16"));
  EXPECT_TRUE(has(with("--optimizer muon").missing, "--optimizer muon"));
  EXPECT_TRUE(has(with("--max-position-embeddings 64").missing, "--max-position-embeddings 64"));
  EXPECT_TRUE(has(with("--sequence-parallel").same, "--sequence-parallel"));
}

TEST(Megatron, RefusesWhatItCannotRead) {
  const auto says = [](const std::string& text) {
    return message_of<InputError>([&] { (void)with(text); });
  };
  EXPECT_THAT(says("--kv-channels $N"),
              AllOf(HasSubstr("a.args"), HasSubstr("--kv-channels"), HasSubstr("--set N=VALUE")));
  EXPECT_THAT(says("--kv-channels"), HasSubstr("--kv-channels has no value"));
  EXPECT_THAT(says("--kv-channels 1 2"), HasSubstr("it takes one"));
  EXPECT_THAT(says("--kv-channels x"), AllOf(HasSubstr("--kv-channels"), HasSubstr("\"x\"")));
  EXPECT_THAT(says("--swiglu 3"), HasSubstr("\"3\" stands behind --swiglu"));
  EXPECT_THAT(says("--num-layers-per-virtual-pipeline-stage 3 --pipeline-model-parallel-size 2"),
              HasSubstr("4 / 2"));
  EXPECT_THAT(message_of<InputError>([] { (void)imported("--hidden-size 8"); }),
              HasSubstr("--num-layers is missing"));
  EXPECT_THAT(message_of<InputError>([] { (void)imported("nothing here"); }),
              HasSubstr("no arguments"));
}

}  // namespace
}  // namespace frugal::harness
