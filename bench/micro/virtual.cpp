// What it costs the host to charge one operation on a virtual device, to train a trillion
// parameters there for a step, and to predict configurations.
#include <benchmark/benchmark.h>

#include "bench/namespace.h"
#include "engine/plan/search.h"
#include "engine/train/trainer.h"
#include "harness/settings/models.h"
#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"

namespace frugal::bench {
namespace {

View unbacked(const Shape& shape) { return {nullptr, DType::bf16, shape}; }

void charge(benchmark::State& state, const Operation& operation) {
  VirtualDevice device(find_machine("a100-selene"));
  for (auto _ : state) device.execute(operation);
  state.SetItemsProcessed(state.iterations());
}

void charge_gemm(benchmark::State& state) {
  constexpr int64_t tokens = 2048, hidden = 12288;
  charge(state, Gemm{.a = unbacked({tokens, hidden}),
                     .b = unbacked({4 * hidden, hidden}),
                     .c = unbacked({tokens, 4 * hidden}),
                     .bias = {},
                     .transpose_b = true});
}
BENCHMARK(charge_gemm);

void charge_gelu(benchmark::State& state) {
  const View x = unbacked({2048, 49152});
  charge(state, Gelu{.x = x, .y = x});
}
BENCHMARK(charge_gelu);

void allocate(benchmark::State& state) {
  VirtualDevice device(find_machine("a100-selene"));
  for (auto _ : state) device.deallocate(device.allocate(1 << 20), 1 << 20);
}
BENCHMARK(allocate);

ModelConfig trillion() {
  ModelConfig model;
  model.layers = 128;
  model.hidden = 25600;
  model.heads = 160;
  model.sequence = 2048;
  model.vocabulary = 51200;
  return model;
}

/// One step of korthikanti2022's largest model on its 512 GPUs: 64 stages, 512 microbatches.
void train_trillion(benchmark::State& state) {
  RunConfig run;
  run.model = trillion();
  run.type = DType::bf16;
  run.tensor_parallel = 8;
  run.sequence_parallel = true;
  run.recompute = Recompute::selective;
  run.pipeline_parallel = 64;
  run.microbatches = 512;
  const auto cluster = make_virtual_cluster(run, find_machine("a100-selene"));
  Trainer trainer(*cluster, run, {});
  const Batch batch(static_cast<size_t>(run.batch_microbatches()));
  for (auto _ : state) benchmark::DoNotOptimize(trainer.step(batch));
}
BENCHMARK(train_trillion)->Unit(benchmark::kMillisecond);

/// Configurations that were compared.
void run_plan(benchmark::State& state, PlanRequest request) {
  request.within = 1.5;
  size_t configurations = 0;
  for (auto _ : state) configurations += search(request).compared();
  state.SetItemsProcessed(static_cast<int64_t>(configurations));
}

/// All configurations of that model on so many GPUs.
void plan_trillion_as(benchmark::State& state, const ScheduleKind& schedule) {
  PlanRequest request;
  request.run.model = trillion();
  request.run.type = DType::bf16;
  request.schedules = {schedule};
  request.machine = find_machine("a100-selene");
  request.devices = static_cast<int>(state.range(0));
  request.batch = request.devices;
  request.memory = request.machine.memory_capacity;
  request.tensor = {1, 2, 4, 8};
  request.recompute = {
      {Recompute::none}, {Recompute::selective}, {Recompute::full}, {Recompute::stage}};
  run_plan(state, request);
}
void plan_trillion(benchmark::State& state) {
  plan_trillion_as(state, ScheduleKind::one_forward_one_backward);
}
BENCHMARK(plan_trillion)->Arg(512)->Arg(16384)->Unit(benchmark::kMillisecond);
/// Several batches are walked through where there is no flush.
void plan_trillion_without_flush(benchmark::State& state) {
  plan_trillion_as(state, ScheduleKind::two_buffered);
}
BENCHMARK(plan_trillion_without_flush)->Arg(512)->Arg(16384)->Unit(benchmark::kMillisecond);

/// All that can be searched, for a model of billions on so many GPUs.
void plan_everything(benchmark::State& state) {
  PlanRequest request;
  request.run.model = find_model("llama3-8b");
  request.run.type = DType::bf16;
  request.run.attention = AttentionKind::fused;
  request.run.sequence_parallel = true;
  request.machine = find_machine("h100-dgx");
  request.devices = static_cast<int>(state.range(0));
  request.batch = int64_t{4} * request.devices;
  request.memory = request.machine.memory_capacity;
  request.tensor = {1, 2, 4, 8};
  request.search_all();
  run_plan(state, request);
}
BENCHMARK(plan_everything)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace frugal::bench
