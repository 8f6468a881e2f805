#include <gmock/gmock.h>

#include <fstream>

#include "kernels/support/error.h"
#include "tests/engine/program/support.h"

// Kernels that a program's file describes, whose host issues them and what it computes again.
namespace frugal::engine {
namespace {

using testing::as;
using ::testing::HasSubstr;
using testing::small_gpt;

/// Seconds and FLOPs of one layer's passes on a machine.
struct LayerRun {
  double seconds, flops;
};
LayerRun layer_on(const Machine& machine, const RunConfig& config) {
  const auto cluster = make_virtual_cluster(config, machine);
  ModuleRun layer(*cluster, Module::layer);
  const ModuleTime time = layer.time();
  const ModuleMemory memory = layer.memory();
  return {time.forward + time.backward, memory.forward_flops + memory.backward_flops};
}

Machine quick() {
  Machine machine = find_machine("h200-hgx");
  machine.launch_overhead = 1e-9;
  return machine;
}

/// Bytes over the bandwidth of copies, and a launch each.
TEST(ProgramKernel, TakesTheTimeOfItsBytes) {
  const RunConfig config = as(small_gpt(), "frugal");
  const Machine machine = quick();
  const double plain = layer_on(machine, config).seconds;
  const double with = layer_on(machine, as(config, "layer-ends*6*2")).seconds;
  const auto bytes = 6.0 * 2 * static_cast<double>(testing::Sizes(config).hidden);
  EXPECT_NEAR(
      with - plain,
      2 * machine.kernel_latency + bytes / (machine.memory_bandwidth * machine.memory_fraction),
      1e-12);
}

TEST(ProgramKernel, IsReadFromAFileAndTakenOutByItsName) {
  const std::string path = ::testing::TempDir() + "mine.json";
  std::ofstream(path) << R"({"schema": "frugal.program/2", "name": "mine", "description": "a test",
    "behaviours": [{"kernel": "extra", "does": "Nothing", "at": "layer-ends", "bytes": 6,
                    "launches": 2, "status": "supposed", "evidence": "a test's own kernel"}]})";
  const Program program = find_program(path);
  EXPECT_TRUE(program.has("extra"));
  EXPECT_TRUE(program.hears(ModelEvent::layer_ends));
  EXPECT_EQ(program.name, "layer-ends*6*2") << "which says the same without the file";
  EXPECT_EQ(find_program(program.name).behaviours().size(), 1U);
  EXPECT_EQ(find_program(path + "~extra"), Program{});
  EXPECT_EQ(find_program(path + ":real"), Program{}) << "time of a virtual device alone";
}

TEST(ProgramKernel, MistakesAreNamed) {
  const auto error = [](const std::string& text) {
    return kernels::message_of<InputError>([&] { (void)find_program(text); });
  };
  EXPECT_THAT(error("layer-ends*0"), HasSubstr("above 0"));
  EXPECT_THAT(error("layer-ends*6*0"), HasSubstr("EVENT*BYTES"));
  EXPECT_THAT(error("layer-ends*6x"), HasSubstr("EVENT*BYTES"));
  EXPECT_THAT(error("layer-end*6"), HasSubstr("layer-ends"));
}

/// A norm that is made again has kernels besides, which move nothing that there is.
TEST(ProgramKernel, IsNotRunOnADeviceThatComputes) {
  RunConfig llama = as(testing::small_llama(), "frugal");
  llama.recompute = Recompute::selective;
  llama.recompute_modules = {LayerModule::norm};
  const MicroBatch batch = random_batch(llama, 0).front();
  const HostTensors own = testing::snapshot_of(llama, batch);
  const HostTensors imitated = testing::snapshot_of(as(llama, "float32-norms"), batch);
  EXPECT_EQ(testing::worst_error(imitated, own).value, 0);
}

/// A layer of nothing but launches takes as long as its host.
TEST(ProgramHost, BoundsALayerThatTheDeviceComputesSooner) {
  RunConfig config = as(small_gpt(), "frugal");
  Machine machine = quick();
  machine.eager_overhead = 1;
  EXPECT_LT(testing::step_on(machine, config), 1);
  EXPECT_GT(testing::step_on(machine, as(config, "eager-host")), 20)
      << "seconds, one for each operation of a pass";
}

/// Two linear maps of a layer have inputs whose gradients tensor-parallel ranks sum. Their weights'
/// gradients take longer, and hide the sums where nobody waits.
TEST(AwaitedTensorSums, HaveNothingBesideThem) {
  RunConfig config = as(small_gpt(), "frugal");
  config.tensor_parallel = 2;
  Machine machine = quick();
  machine.kernel_latency = 1e-4;
  machine.collective_latency = 1e-5;
  machine.link_latency = machine.collective_share = machine.compute_share = 0;
  machine.link_bandwidth = 1e15;
  EXPECT_NEAR(layer_on(machine, as(config, "awaited-tensor-sums")).seconds -
                  layer_on(machine, config).seconds,
              2 * machine.collective_latency, 1e-9);
}

/// Full recomputation without a layer's last product: 2 · tokens · 4h · h FLOPs fewer.
TEST(EarlyStop, LeavesOutTheLastProductOfALayer) {
  RunConfig config = as(small_gpt(), "frugal");
  config.model.dropout = 0;
  config.recompute = Recompute::full;
  const Machine machine = find_machine("h200-hgx");
  const testing::Sizes sizes(config);
  const auto product = 2.0 * static_cast<double>(sizes.inner * config.model.hidden);
  EXPECT_EQ(layer_on(machine, config).flops - layer_on(machine, as(config, "early-stop")).flops,
            product);
  config.model.dropout = 0.1;
  EXPECT_EQ(layer_on(machine, config).flops, layer_on(machine, as(config, "early-stop")).flops)
      << "a mask behind the product is kept";
}

}  // namespace
}  // namespace frugal::engine
