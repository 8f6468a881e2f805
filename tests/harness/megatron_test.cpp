#include "tests/harness/megatron.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "harness/import/argument_list.h"
#include "harness/import/megatron_table.h"
#include "harness/settings/config_json.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
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
  const Imported in = with("--global-batch-size 48 --tensor-model-parallel-size 2", of_ranks(8));
  EXPECT_EQ(config_of(in).data_parallel, 4);
  EXPECT_EQ(config_of(in).microbatches, 6);
  EXPECT_EQ(config_of(with("--global-batch-size 48")).microbatches, 24);
  EXPECT_EQ(config_of(with("")).microbatches, 1);
  EXPECT_THAT(message_of<InputError>([] { (void)with("--global-batch-size 49"); }),
              AllOf(HasSubstr("--global-batch-size 49"), HasSubstr("2 x 1")));
  EXPECT_THAT(
      message_of<InputError>([] { (void)with("--pipeline-model-parallel-size 3", of_ranks(8)); }),
      AllOf(HasSubstr("8 ranks"), HasSubstr("--world-size")));
}

/// Megatron-LM counts the positions before one, and frugal the position itself, too.
TEST(Megatron, ReadsWindowsThatLookBack) {
  EXPECT_EQ(config_of(with("--window-size 128,0")).model.window, 128 + 1);
  EXPECT_EQ(config_of(with("")).model.window, 0);
  EXPECT_THAT(message_of<InputError>([] { (void)with("--window-size 128,64"); }),
              HasSubstr("--window-size 128,0"));
}

TEST(Megatron, PadsTheVocabulary) {
  const std::string without =
      smallest_megatron.substr(0, smallest_megatron.find("--vocab-size")) + "--bf16 ";
  EXPECT_EQ(config_of(imported(without + "--vocab-size 50257 --tensor-model-parallel-size 8"))
                .model.vocabulary,
            51200);
  EXPECT_EQ(config_of(imported(without + "--tokenizer-type GPT2BPETokenizer")).model.vocabulary,
            50304);
  EXPECT_EQ(
      config_of(imported(without + "--padded-vocab-size 1000 --vocab-size 999")).model.vocabulary,
      1000);
  EXPECT_EQ(config_of(imported(without,
                               {.variables = {}, .ranks = {}, .given = {{"vocabulary_size", 300}}}))
                .model.vocabulary,
            384);
  EXPECT_THAT(message_of<InputError>(
                  [&] { (void)imported(without + "--tokenizer-type SentencePieceTokenizer"); }),
              AllOf(HasSubstr("SentencePieceTokenizer"), HasSubstr("--vocabulary")));
}

TEST(Megatron, ReadsWhatReplicasDivide) {
  const auto shard = [](const std::string& arguments) { return config_of(with(arguments)).shard; };
  EXPECT_EQ(shard(""), Shard::none);
  EXPECT_EQ(shard("--use-distributed-optimizer"), Shard::optimizer);
  EXPECT_EQ(shard("--zero-stage 0"), Shard::none);
  EXPECT_EQ(shard("--zero-stage 2"), Shard::gradients);
  EXPECT_EQ(shard("--use-torch-fsdp2"), Shard::weights);
  EXPECT_EQ(shard("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"),
            Shard::gradients);
  EXPECT_TRUE(has(with("--data-parallel-sharding-strategy optim").same,
                  "--data-parallel-sharding-strategy"));
  EXPECT_THROW((void)with("--zero-stage 4"), InputError);
}

TEST(Megatron, DividesWithinAnInstanceOfTheOptimizer) {
  const auto of = [](const std::string& more, int64_t ranks) {
    return with("--use-distributed-optimizer --num-distributed-optimizer-instances " + more,
                of_ranks(ranks));
  };
  const RunConfig eighth = config_of(of("8 --global-batch-size 32", 16));
  EXPECT_EQ(eighth.shard, Shard::optimizer);
  EXPECT_EQ(eighth.shard_size, 2) << "16 replicas in 8 instances";
  EXPECT_EQ(config_of(of("2 --context-parallel-size 2 --cp-comm-type a2a", 8)).shard_size, 4)
      << "4 replicas of 2 ranks that have the same weights";
  EXPECT_EQ(config_of(of("1", 8)).shard_size, 0);
  EXPECT_TRUE(has(with("--num-distributed-optimizer-instances 8", of_ranks(8)).same,
                  "--num-distributed-optimizer-instances 8"));
  EXPECT_THAT(message_of<InputError>([&] { (void)of("3", 8); }), HasSubstr("must divide"));
}

TEST(Megatron, ReadsTheSpellingsOfForks) {
  const RunConfig fork = config_of(
      with("--normalization rmsnorm --swiglu --num-key-value-heads 2 --disable-bias-linear"));
  EXPECT_EQ(fork.model.norm, NormKind::rms);
  EXPECT_EQ(fork.model.kv_heads, 2);
  EXPECT_EQ(config_of(with("--optimizer SGD")).model.layers, 4);
  const Imported gate = with("--glu-activation swiglu");
  EXPECT_EQ(config_of(gate).model.mlp, MlpKind::swiglu);
  EXPECT_EQ(config_of(gate).model.intermediate_size(), 4 * 64) << "the forks' default";
  EXPECT_EQ(config_of(with("--glu-activation GEGLU --ffn-hidden-size 96")).model.intermediate, 96);
  EXPECT_EQ(config_of(with("--glu-activation liglu")).model.mlp, MlpKind::geglu);
  for (const char* wrong : {"--glu-activation gelu", "--glu-activation swiglu --swiglu",
                            "--num-key-value-heads 2 --num-query-groups 4", "--batch-size 3",
                            "--seq-length 32 --encoder-seq-length 64"})
    EXPECT_THROW((void)with(wrong), InputError) << wrong;
}

TEST(Megatron, ReadsListsInBrackets) {
  const RunConfig c =
      config_of(with("--context-parallel-size 4 --cp-comm-type a2a+p2p "
                     "--hierarchical-context-parallel-sizes \"[2 2]\""));
  EXPECT_EQ(c.ulysses_size, 2);
  EXPECT_EQ(c.context, ContextKind::zigzag);
  EXPECT_EQ(config_of(with("--recompute-granularity selective --recompute-modules "
                           "\"['layernorm', 'mlp']\""))
                .recompute_modules,
            (LayerModules{LayerModule::norm, LayerModule::mlp}));
}

TEST(Megatron, DoesNotPadWhereNothingIsPadded) {
  const Imported in = with("--vocab-size 300 --no-pad-vocab-size --tensor-model-parallel-size 2");
  EXPECT_EQ(config_of(in).model.vocabulary, 300);
}

TEST(Megatron, ReadsRingsOfGroupsThatExchangeHeads) {
  const std::string eight = "--context-parallel-size 8 ",
                    sizes = "--hierarchical-context-parallel-sizes ";
  const RunConfig both = config_of(with(eight + "--cp-comm-type a2a+p2p " + sizes + "2 4"));
  EXPECT_EQ(both.context, ContextKind::zigzag);
  EXPECT_EQ(both.ulysses_size, 2);
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

TEST(Megatron, ReadsTheLayersOfTheFirstAndTheLastStage) {
  const std::string stages = " --pipeline-model-parallel-size 2 ";
  EXPECT_THAT(config_of(with(stages + "--decoder-first-pipeline-num-layers 3")).stage_layers,
              ::testing::ElementsAre(3, 1));
  EXPECT_THAT(config_of(with(stages + "--decoder-last-pipeline-num-layers 1")).stage_layers,
              ::testing::ElementsAre(3, 1));
  EXPECT_THROW((void)with(stages + "--decoder-first-pipeline-num-layers 5"), InputError);
}

TEST(Megatron, ChoosesAttentionAsItsVersionDoes) {
  EXPECT_EQ(config_of(with("")).attention, AttentionKind::fused);
  EXPECT_EQ(config_of(with("--DDP-impl local")).attention, AttentionKind::separate);
  EXPECT_EQ(config_of(with("--DDP-impl local --use-flash-attn")).attention, AttentionKind::fused);
  EXPECT_EQ(config_of(with("--transformer-impl local")).attention, AttentionKind::separate);
  EXPECT_EQ(config_of(with("--attention-backend flash")).attention, AttentionKind::fused);
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
  EXPECT_EQ(config_of(with("--swiglu")).model.intermediate, 128);  // 8/3 of 64 is 170, in whole 64s
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

/// A configuration that Megatron-LM's arguments can say.
class Drawn {
 public:
  explicit Drawn(uint64_t seed) : random_(seed) {
    draw_layout();
    draw_model();
    draw_memory();
  }
  RunSettings settings;
  int64_t tokens = 0;  ///< before they are padded

 private:
  int64_t one_of(std::initializer_list<int64_t> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random_() % values.size()));
  }
  bool maybe() { return random_() % 2 == 0; }
  void draw_layout() {
    RunConfig& c = settings.config;
    c.tensor_parallel = static_cast<int>(one_of({1, 2, 4}));
    c.pipeline_parallel = static_cast<int>(one_of({1, 2, 4}));
    c.data_parallel = static_cast<int>(one_of({1, 3}));
    c.context_parallel = static_cast<int>(one_of({1, 1, 2, 4}));
    const bool four = c.context_parallel == 4;  // with these heads, no Ulysses of as many
    if (c.context_parallel > 1)
      c.context = four || maybe() ? ContextKind::zigzag : ContextKind::ulysses;
    if (four && maybe()) c.ulysses_size = 2;
    if (c.pipeline_parallel > 1 && maybe()) {
      c.chunks = 2;
      c.schedule = *schedule_kind("interleaved");
    }
    c.sequence_parallel = c.tensor_parallel > 1 && maybe();
    c.micro_batch = one_of({1, 2, 5});
    c.microbatches = 4 * one_of({1, 2, 3});
  }
  void draw_model() {
    RunConfig& c = settings.config;
    ModelConfig& m = c.model;
    m.layers = c.pipeline_parallel * c.chunks * one_of({1, 2, 3});
    m.heads = 8 * one_of({1, 2});
    m.hidden = m.heads * one_of({16, 32});
    m.head_width = maybe() ? 0 : 64;
    m.kv_heads = maybe() ? 0 : 4;
    m.intermediate = 8 * one_of({8, 24});
    m.sequence = 64;
    m.vocabulary = 128 * c.tensor_parallel * one_of({1, 7});
    tokens = m.vocabulary - one_of({0, 1, 127});
    m.norm = maybe() ? NormKind::rms : NormKind::layer;
    m.norm_epsilon = maybe() ? 1e-5 : 1e-6;
    m.mlp = static_cast<MlpKind>(one_of({0, 1, 2}));
    m.bias = static_cast<BiasKind>(one_of({0, 1, 2}));
    m.tied = maybe();
    if (maybe()) {
      m.positions = PositionKind::rotary;
      m.rotary.base = 500000;
      m.rotary.bands = maybe();
      m.rotary.factor = m.rotary.bands ? 8 : static_cast<double>(one_of({1, 4}));
    }
    m.dropout = c.context_parallel > 1 || maybe() ? 0 : 0.25;
    c.stored_masks = m.dropout > 0;
  }
  void draw_memory() {
    RunConfig& c = settings.config;
    c.attention =
        c.context_parallel > 1 || maybe() ? AttentionKind::fused : AttentionKind::separate;
    c.recompute = static_cast<Recompute>(one_of({0, 1, 2}));
    if (c.recompute == Recompute::selective && c.attention == AttentionKind::fused)
      c.recompute = Recompute::full;
    c.type = maybe() ? DType::bf16 : DType::f32;
    c.narrow_logits = maybe();
    c.narrow_reduction = maybe();
    c.offload_optimizer = maybe();
    c.seed = 7;
    OptimizerOptions& o = settings.train.optimizer;
    o.kind = maybe() ? OptimizerKind::adamw : OptimizerKind::momentum;
    o.learning_rate = 0.25;
    o.weight_decay = 0.5;
    o.clip = maybe() ? 1 : 2;
  }
  std::mt19937_64 random_;
};

/// Arguments that say it: those that one field decides from the table, the others here.
class MegatronWriter {
 public:
  explicit MegatronWriter(const Drawn& drawn) : s_(drawn.settings), tokens_(drawn.tokens) {}

  Words write() {
    for (const MegatronArgument& line : megatron_fields())
      if (line.reads != MegatronArgument::Reads::together) write(line);
    write_model();
    write_run();
    return words_;
  }

 private:
  void add(const std::string& name) { words_.push_back(name); }
  template <class T>
  void add(const std::string& name, const T& value) {
    words_.push_back(name);
    words_.push_back(fmt::format("{}", value));
  }
  void write(const MegatronArgument& line) {
    const Field& field = field_of(line.key);
    const std::string text = field.type.text(field.get(s_)), name(line.names.front());
    if (line.reads == MegatronArgument::Reads::value) {
      if (text != "0") add(name, text);  // 0 stands for what follows from others
    } else {
      for (const auto& [theirs, ours] : line.texts)
        if (ours == text) theirs.empty() ? add(name) : add(name, theirs);
    }
  }
  void write_model() {
    const ModelConfig& m = s_.config.model;
    add("--ffn-hidden-size", m.intermediate);
    if (m.kv_heads > 0) {
      add("--group-query-attention");
      add("--num-query-groups", m.kv_heads);
    }
    add("--vocab-size", tokens_);
    add("--hidden-dropout", m.dropout);
    add("--attention-dropout", m.dropout);
    if (m.bias != BiasKind::all) add("--disable-bias-linear");
    if (m.bias == BiasKind::qkv) add("--add-qkv-bias");
    if (m.positions == PositionKind::learned) return;
    add("--position-embedding-type", "rope");
    add("--rotary-base", m.rotary.base);
    if (m.rotary.bands) {
      add("--use-rope-scaling");
      add("--rope-scaling-factor", m.rotary.factor);
    } else if (m.rotary.factor != 1) {
      add("--rotary-seq-len-interpolation-factor", m.rotary.factor);
    }
  }
  void write_run() {
    const RunConfig& c = s_.config;
    if (c.type == DType::bf16) add("--bf16");
    if (c.sequence_parallel) add("--sequence-parallel");
    if (c.chunks > 1)
      add("--num-layers-per-virtual-pipeline-stage",
          c.model.layers / c.pipeline_parallel / c.chunks);
    if (c.ulysses_size > 0) {
      add("--cp-comm-type", "a2a+p2p");
      add("--hierarchical-context-parallel-sizes", c.ulysses_size);
      add(std::to_string(c.ring_ranks()));
    } else if (c.context_parallel > 1) {
      add("--cp-comm-type", c.context == ContextKind::zigzag ? "p2p" : "a2a");
    }
    add("--global-batch-size", c.micro_batch * c.batch_microbatches());
    add("--attention-backend", c.attention == AttentionKind::fused ? "flash" : "unfused");
    if (c.recompute != Recompute::none) add("--recompute-granularity", name_of(c.recompute));
    if (c.recompute == Recompute::full) {
      add("--recompute-method", "uniform");
      add("--recompute-num-layers", 1);
    }
  }

  const RunSettings& s_;
  int64_t tokens_;
  Words words_;
};

TEST(Megatron, ReadsWhatIsWrittenOfAConfiguration) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Drawn drawn(seed);
    const RunConfig& config = drawn.settings.config;
    ASSERT_NO_THROW(config.validate()) << "seed " << seed;
    const ArgumentList list = arguments_of(MegatronWriter(drawn).write(), "written");
    const Imported in = import_megatron(list, "written", of_ranks(config.ranks()));
    const RunSettings read = settings_of(in.given);
    ASSERT_EQ(to_json(read.config), to_json(config)) << "seed " << seed;
    const OptimizerOptions &o = read.train.optimizer, &expected = drawn.settings.train.optimizer;
    ASSERT_EQ(
        std::tie(o.kind, o.learning_rate, o.weight_decay, o.clip),
        std::tie(expected.kind, expected.learning_rate, expected.weight_decay, expected.clip));
    ASSERT_TRUE(in.unknown.empty());
  }
}

}  // namespace
}  // namespace frugal::harness
