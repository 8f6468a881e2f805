#include "engine/train/module_run.h"

#include <gtest/gtest.h>

#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

// What a module alone holds at its peak, against the tensors that it must have then, to the byte.
namespace frugal::engine {
namespace {

int64_t sum(const BytesPerKind& bytes) {
  int64_t all = 0;
  for (const int64_t one : bytes) all += one;
  return all;
}

/// A Llama's sizes, with weights, gradients and activations of 2 bytes.
struct ModuleSizes {
  int64_t s, d, i, v, parts;

  RunConfig config() const {
    RunConfig c = testing::small_llama();
    c.model.hidden = d;
    c.model.sequence = s;
    c.model.intermediate = i;
    c.model.vocabulary = v;
    c.type = DType::bf16;
    c.precision = Precision::pure;
    c.micro_batch = 1;
    return c;
  }
};
const ModuleSizes all_sizes[] = {
    {64, 32, 48, 1024, 1}, {64, 32, 96, 2048, 4}, {128, 64, 112, 512, 8}};

ModuleMemory on_both(const RunConfig& c, Module module) {
  const ModuleMemory real = ModuleRun(*make_cpu_cluster(c, 2), module).memory();
  const ModuleMemory counted =
      ModuleRun(*make_virtual_cluster(c, find_machine("a100-selene")), module).memory();
  EXPECT_EQ(real.peak, counted.peak);
  EXPECT_EQ(real.at_peak, counted.at_peak);
  EXPECT_EQ(real.peak_total, counted.peak_total);
  EXPECT_EQ(real.after_forward, counted.after_forward);
  EXPECT_EQ(real.peak_total, sum(real.at_peak));
  return real;
}

/// Logits in float32 and their gradient in 2 bytes exist at once, of a part; a part's gradient of
/// the weights is added up in float32.
TEST(ModuleRun, AnOutputLayerHoldsTheLogitsOfOnePart) {
  for (const ModuleSizes& n : all_sizes) {
    RunConfig c = n.config();
    c.head_chunks = n.parts;
    const ModuleMemory memory = on_both(c, Module::output_layer);
    const int64_t weights = n.v * n.d, tokens = n.s / n.parts;
    const int64_t held = 2 * weights + 2 * weights + 2 * n.s * n.d + 4 * n.s;  // with x and labels
    const int64_t part = 4 * tokens * n.v + 2 * tokens * n.v + 12 * tokens;
    const int64_t sums = n.parts > 1 ? 4 * weights + 2 * n.s * n.d : 0;  // of dW, and dx
    EXPECT_EQ(memory.peak_total, held + part + sums + 4 * n.s) << n.parts;
    const double once = 2.0 * static_cast<double>(n.s * weights);
    EXPECT_EQ(memory.forward_flops, n.parts > 1 ? 3 * once : once);
    EXPECT_EQ(memory.forward_flops + memory.backward_flops, 3 * once);
  }
}

/// Gate, up, their product and its gradient exist at once, of a part; in parts, the gate and the up
/// of backward are computed again.
TEST(ModuleRun, AnMlpHoldsTheIntermediateTensorsOfOnePart) {
  for (const ModuleSizes& n : all_sizes) {
    RunConfig c = n.config();
    c.mlp_chunks = n.parts;
    const ModuleMemory memory = on_both(c, Module::mlp);
    const int64_t weights = 3 * n.d * n.i, tokens = n.s / n.parts;
    const int64_t held = 2 * weights + 2 * weights + 4 * n.s * n.d;  // with x and dy
    const int64_t dx = n.parts > 1 ? 2 * n.s * n.d : 0;
    const int64_t backward = dx + 8 * tokens * n.i;
    const int64_t forward = 2 * n.s * n.d + 6 * tokens * n.i +  // y, and what is added to it
                            2 * tokens * n.d;
    EXPECT_EQ(memory.peak_total, held + std::max(forward, backward)) << n.parts;
    const double once = 2.0 * static_cast<double>(n.s * weights);
    EXPECT_EQ(memory.forward_flops, once);
    EXPECT_NEAR(memory.backward_flops, n.parts > 1 ? (2 + 2.0 / 3) * once : 2 * once, 1e-6 * once);
  }
}

/// A part of a sequence is a sequence to a module outside attention.
TEST(ModuleRun, RanksThatShareASequenceHoldTheirPart) {
  for (const ModuleSizes& n : all_sizes)
    for (const Module module : {Module::mlp, Module::output_layer}) {
      RunConfig shared = n.config();
      shared.mlp_chunks = shared.head_chunks = n.parts;
      RunConfig alone = shared;
      alone.model.sequence /= 2;
      shared.context_parallel = 2;
      shared.validate();
      const ModuleMemory a = on_both(shared, module), b = on_both(alone, module);
      EXPECT_EQ(a.peak, b.peak) << name_of(module);
      EXPECT_EQ(a.peak_total, b.peak_total) << name_of(module);
      EXPECT_EQ(a.backward_flops, b.backward_flops) << name_of(module);
    }
}

TEST(ModuleRun, TimesPasses) {
  const RunConfig c = all_sizes[0].config();
  const auto cluster = make_virtual_cluster(c, find_machine("a100-selene"));
  for (const Module module : {Module::layer, Module::mlp, Module::output_layer}) {
    ModuleRun run(*cluster, module);
    const ModuleTime first = run.time(), second = run.time();
    EXPECT_GT(first.forward, 0) << name_of(module);
    EXPECT_GT(first.backward, first.forward) << name_of(module);
    EXPECT_NEAR(first.backward, second.backward, 1e-12) << name_of(module);
  }
}

}  // namespace
}  // namespace frugal::engine
