#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"
#include "tests/support/source_dir.h"

// The same small GPT and BERT computed by PyTorch (tests/golden/pytorch_gpt.py --make-golden).
namespace frugal::engine {
namespace {

RunConfig config_of(const safetensors::File& file) {
  const auto number = [&](const char* key) { return std::stoll(file.metadata.at(key)); };
  RunConfig c;
  c.model = {.name = "golden",
             .layers = number("layers"),
             .hidden = number("hidden"),
             .heads = number("heads"),
             .sequence = number("sequence"),
             .vocabulary = number("vocabulary"),
             .dropout = 0,
             .causal = file.metadata.at("causal") == "true"};
  c.micro_batch = number("micro_batch");
  return c;
}

std::vector<int32_t> integers(const HostTensor& tensor) {
  return {tensor.values.begin(), tensor.values.end()};
}

FRUGAL_LEFT_OUT(thread, "Golden.*",
                "ranks whose threads do what those of ParallelEqualsSerial and PipelineOracle do");
TEST(Golden, LogitsLossAndGradientsEqualPyTorch) {
  for (const char* model : {"gpt", "bert"}) {
    const auto file = safetensors::read(
        fmt::format("{}/tests/golden/{}.safetensors", testing::source_dir(), model));
    const MicroBatch batch{integers(file.tensors.at("tokens")),
                           integers(file.tensors.at("labels"))};
    for (const int ranks : {1, 2, 4})
      for (const AttentionKind attention : {AttentionKind::separate, AttentionKind::fused}) {
        SCOPED_TRACE(fmt::format("{} of {}, {}", model, ranks, name_of(attention)));
        RunConfig c = config_of(file);
        c.tensor_parallel = ranks;
        c.attention = attention;
        c.sequence_parallel = ranks > 1;
        const auto cluster = make_cpu_cluster(c, 2);
        Trainer trainer(*cluster, c, {});
        trainer.load_weights(file.tensors);
        const HostTensors actual = trainer.snapshot(batch);
        EXPECT_EQ(actual.size(), file.tensors.size());
        const auto worst = testing::worst_error(actual, file.tensors);
        EXPECT_LT(worst.value, 1e-4) << worst.tensor;
      }
  }
}

}  // namespace
}  // namespace frugal::engine
