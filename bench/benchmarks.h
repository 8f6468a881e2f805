#pragma once
#include "bench/namespace.h"
#include "harness/measure/benchmark.h"

/// Every benchmark, in the order in which they are listed. A file of this folder defines each.
// clang-format off
#define FRUGAL_BENCHMARKS(BENCHMARK) \
  BENCHMARK(gemm)                    \
  BENCHMARK(attention)               \
  BENCHMARK(memory_bound)            \
  BENCHMARK(layer)                   \
  BENCHMARK(recompute)               \
  BENCHMARK(mini_sequence)           \
  BENCHMARK(mini_sequence_memory)    \
  BENCHMARK(pipeline)                \
  BENCHMARK(prediction)              \
  BENCHMARK(plan)                    \
  BENCHMARK(processes)               \
  BENCHMARK(collectives)
// clang-format on

#define FRUGAL_DECLARED(name) const Benchmark& name();
namespace frugal::bench {
FRUGAL_BENCHMARKS(FRUGAL_DECLARED)

/// Every benchmark, in the order in which they are listed.
Benchmarks all_benchmarks();
}  // namespace frugal::bench
#undef FRUGAL_DECLARED
