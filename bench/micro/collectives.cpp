// Collectives between threads of one process, by bytes of the largest operand.
#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

#include "bench/namespace.h"
#include "engine/comm/local.h"

namespace frugal::bench {
namespace {

using Collective = void (*)(Communicator&, const View& shard, const View& all);

/// Every rank does the collective once per iteration; the time is rank 0's.
void between_threads(benchmark::State& state, Collective collective) {
  const int ranks = static_cast<int>(state.range(0));
  const int64_t elements = state.range(1) / int64_t{sizeof(float)};
  LocalGroup group(ranks);
  const int64_t part = elements / ranks;
  std::vector<std::vector<float>> memory(  // all, then a shard
      static_cast<size_t>(ranks), std::vector<float>(static_cast<size_t>(elements + part), 0));
  const auto once = [&](int rank) {
    float* const all = memory[static_cast<size_t>(rank)].data();
    collective(group.communicator(rank), {all + elements, DType::f32, {part}},
               {all, DType::f32, {elements}});
  };
  // Peers take part in as many iterations as rank 0, which says before each whether there is one.
  std::vector<int32_t> go(static_cast<size_t>(ranks), 1);
  const auto agree = [&](int rank) {
    const View flag(&go[static_cast<size_t>(rank)], DType::i32, {1});
    group.communicator(rank).broadcast(flag, 0).wait();
    return go[static_cast<size_t>(rank)] != 0;
  };
  std::vector<std::thread> peers;
  for (int rank = 1; rank < ranks; ++rank) {
    peers.emplace_back([&, rank] {
      while (agree(rank)) once(rank);
    });
  }
  for (auto _ : state) {
    state.PauseTiming();
    agree(0);
    state.ResumeTiming();
    once(0);
  }
  go[0] = 0;
  agree(0);
  for (std::thread& peer : peers) peer.join();
  state.SetBytesProcessed(state.iterations() * state.range(1));
}

void all_reduce(Communicator& c, const View&, const View& all) { c.all_reduce(all).wait(); }
void all_gather(Communicator& c, const View& shard, const View& all) {
  c.all_gather(shard, all).wait();
}
void reduce_scatter(Communicator& c, const View& shard, const View& all) {
  c.reduce_scatter(all, shard).wait();
}

const auto sizes = [](benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "bytes"})
      ->ArgsProduct({{2, 4}, {1 << 12, 1 << 16, 1 << 20, 1 << 24}})
      ->UseRealTime();
};
BENCHMARK_CAPTURE(between_threads, all_reduce, all_reduce)->Apply(sizes);
BENCHMARK_CAPTURE(between_threads, all_gather, all_gather)->Apply(sizes);
BENCHMARK_CAPTURE(between_threads, reduce_scatter, reduce_scatter)->Apply(sizes);

}  // namespace
}  // namespace frugal::bench
