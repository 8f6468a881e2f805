#include "harness/import/printed_arguments.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/harness/megatron.h"
#include "tests/support/message_of.h"

// Lists of arguments as Megatron-LM prints them.
namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string printed(const std::string& lines) {
  return "some words before\n------------------------ arguments ------------------------\n" +
         lines + "-------------------- end of arguments ---------------------\nand behind\n";
}
/// Line of an argument as Python formats it, with dots to column 48.
std::string line(const std::string& name, const std::string& value) {
  return "  " + name + " " + std::string(name.size() < 48 ? 48 - name.size() : 0, '.') + " " +
         value + "\n";
}
const std::string smallest = line("global_batch_size", "64") + line("hidden_size", "1024") +
                             line("micro_batch_size", "1") + line("num_attention_heads", "16") +
                             line("num_layers", "8") + line("padded_vocab_size", "32000") +
                             line("seq_length", "1024");

TEST(PrintedArguments, AreThoseThatWereGiven) {
  const Imported in = imported(printed(smallest + line("bf16", "True")));
  EXPECT_EQ(config_of(in).microbatches, 64);
  EXPECT_EQ(config_of(in).model.vocabulary, 32000);
  EXPECT_EQ(config_of(in).type, DType::bf16);
  EXPECT_TRUE(in.unknown.empty() && in.missing.empty());
  EXPECT_EQ(printed_arguments("--num-layers 3", "a"), std::nullopt);
}

TEST(PrintedArguments, SayNothingByDefaultsAndSwitchesThatAreOff) {
  const Imported in = imported(printed(
      smallest + line("add_bias_linear", "False") + line("add_position_embedding", "True") +
      line("apply_rope_fusion", "True") + line("attention_backend", "AttnBackend.auto") +
      line("cp_comm_type", "['p2p']") + line("cpu_offloading_num_layers", "0") +
      line("fp8", "None") + line("group_query_attention", "True") + line("num_query_groups", "4") +
      line("masked_softmax_fusion", "False") + line("moe_router_topk", "2") +
      line("num_experts", "None") + line("rotary_percent", "1.0") +
      line("params_dtype", "torch.bfloat16") + line("img_h", "224") + line("swiglu", "True") +
      line("ffn_hidden_size", "2816") + line("consumed_train_samples", "0") +
      line("a_name_that_has_as_many_letters_as_there_are_dots", "None") +
      line("data_parallel_sharding_strategy", "no_shard") + line("window_size", "(127, 0)") +
      line("num_distributed_optimizer_instances", "1") + line("world_size", "8")));
  const RunConfig c = config_of(in);
  EXPECT_EQ(c.model.bias, BiasKind::none);
  EXPECT_EQ(c.model.kv_heads, 4);
  EXPECT_EQ(c.model.mlp, MlpKind::swiglu);
  EXPECT_EQ(c.model.intermediate, 2816);
  EXPECT_EQ(c.model.window, 128);
  EXPECT_EQ(c.data_parallel, 8);
  EXPECT_EQ(c.attention, AttentionKind::fused);
  EXPECT_TRUE(in.other_model.empty() && in.unknown.empty());
  EXPECT_EQ(in.missing.size(), 1);
  EXPECT_TRUE(has(in.missing, "--no-masked-softmax-fusion"));
}

TEST(PrintedArguments, HaveARankBeforeThem) {
  std::string lines;
  for (size_t at = 0; at < smallest.size();) {
    const size_t end = smallest.find('\n', at) + 1;
    lines += "[default0]:" + smallest.substr(at, end - at);
    at = end;
  }
  EXPECT_EQ(config_of(imported(printed(lines))).model.layers, 8);
}

TEST(PrintedArguments, AreNamedWhereTheyAreNotKnown) {
  EXPECT_TRUE(has(imported(printed(smallest + line("frobnicate", "7"))).unknown, "--frobnicate 7"));
  EXPECT_EQ(imported(printed(smallest + line("num_experts", "8"))).other_model.size(), 1);
  const auto says = [](const std::string& text) {
    return message_of<InputError>([&] { (void)imported(text); });
  };
  const std::string open = printed(smallest);
  EXPECT_THAT(says(open.substr(0, open.find("-------------------- end"))),
              HasSubstr("have no end"));
  EXPECT_THAT(says(printed(smallest + "what\n")), HasSubstr("\"what\" is no printed argument"));
  EXPECT_THAT(says(printed(smallest + line("num_layers", "9"))),
              AllOf(HasSubstr("num_layers is printed as 8 and as 9")));
}

}  // namespace
}  // namespace frugal::harness
