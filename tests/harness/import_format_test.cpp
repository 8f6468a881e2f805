#include <gmock/gmock.h>

#include "harness/import/imported.h"
#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string format_of(const std::string& text) {
  return message_of<InputError>([&] { throw InputError(import_format_of(text, "mine")); });
}

TEST(ImportFormat, IsKnownByItsText) {
  for (const char* text : {"[model]\n", "\n# a job\n  [job]  # first\n", "[[job]]\n",
                           "\xef\xbb\xbf[model]\r\n", "[quantize.linear]\n"})
    EXPECT_EQ(format_of(text), "torchtitan") << text;
  for (const char* text : {"{}", "{\"train_batch_size\": 8}", "  {\n\"zero_optimization\": {}}",
                           "{\"optimizer\": {\"type\": \"Adam\"}, \"seed\": 3}", "{broken"})
    EXPECT_EQ(format_of(text), "deepspeed") << text;
  for (const char* text :
       {"", "--num-layers 3", "#!/bin/bash\ntorchrun x.py --bf16", "[ -f x ] && echo", "[ a ]\n",
        "[[ $A == b ]] || exit\n", "------ arguments ------\n", "MODEL_ARGS:\n  --bf16: true\n"})
    EXPECT_EQ(format_of(text), "megatron") << text;
}

TEST(ImportFormat, NamesWhatIsNoTrainingOfThese) {
  EXPECT_THAT(format_of("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64}"),
              AllOf(HasSubstr("mine: "), HasSubstr("LlamaForCausalLM"), HasSubstr("--model mine")));
  EXPECT_THAT(format_of("{\"model_type\": \"qwen2\"}"), HasSubstr("qwen2"));
  EXPECT_THAT(format_of("{\"model\": \"22B\", \"tensor_parallel_size\": 8, \"microbatchs\": 4}"),
              HasSubstr("frugal measure --config mine"));
  EXPECT_THAT(format_of("{\"schema\": \"frugal.machine/1\", \"name\": \"x\"}"),
              HasSubstr("--on virtual:mine"));
  EXPECT_THAT(format_of("{\"schema\": \"frugal.record/1\", \"configuration\": {}}"),
              HasSubstr("frugal.record/1"));
  for (const char* text :
       {"# in braces\n{\n  \"num_layers\": 8,\n  \"hidden_size\": 64\n}\n",
        "{\n  # not JSON\n  \"num-layers\": 8,\n  \"pipe-parallel-size\": 2,\n}"})
    EXPECT_THAT(format_of(text), AllOf(HasSubstr("GPT-NeoX"), HasSubstr("behind --"))) << text;
}

}  // namespace
}  // namespace frugal::harness
