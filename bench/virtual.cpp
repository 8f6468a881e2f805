// What it costs the host to charge one operation on a virtual device: this bounds how fast a
// trillion-parameter run can be executed.
#include <benchmark/benchmark.h>

#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"

namespace frugal {
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

}  // namespace
}  // namespace frugal
