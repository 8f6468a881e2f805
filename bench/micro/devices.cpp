// What single calls take of a GPU, by events of its streams: products, attention, collectives; and
// of the host: issuing a kernel, and a product, which cuBLASLt looks up and launches. A virtual
// machine predicts the former.
#include "bench/micro/devices.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>

#include "bench/timed.h"
#include "harness/peaks/collective_rates.h"
#include "harness/record/google_benchmark.h"
#include "kernels/cuda/gpus.h"

namespace frugal::bench {
namespace {

using SharedTarget = std::shared_ptr<const Target>;

/// Executions of a sample: events around a single short kernel would time the gap before it, too.
constexpr int in_a_row = 20;

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  const std::string whole = fmt::format("{}/{}", micro_context::device, name);
  benchmark::RegisterBenchmark(whole.c_str(), [run](benchmark::State& state) {
    try {
      run(state);
    } catch (const std::exception& error) {  // what does not fit leaves the others
      state.SkipWithError(error.what());
    }
  })->UseManualTime();
}

/// The device's seconds of one call of `issue`, after a first one, which chooses algorithms; and
/// the rate of `work`, what one call does.
void time_on_device(benchmark::State& state, Device& device, const std::function<void()>& issue,
                    double work) {
  issue();
  for (auto _ : state)
    state.SetIterationTime(device.seconds_on(Stream::compute, [&] {
      for (int i = 0; i < in_a_row; ++i) issue();
    }) / in_a_row);
  state.counters["items_per_second"] =
      benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
}

void add_products(const SharedTarget& target, DType type) {
  for (const LinearSize& size : linear_sizes(target->kind()))
    for (const Product& product : products_of(size))
      add(fmt::format("gemm/{}/{}/{}x{}x{}", name_of(type), product.name, product.m, product.n,
                      product.k),
          [=](benchmark::State& state) {
            OneDevice one(*target);
            const Buffer a(one.device, type, product.shape_of_a()),
                b(one.device, type, product.shape_of_b()),
                c(one.device, product.type_of_c(type), product.shape_of_c());
            const Gemm gemm = product.gemm(a.view(), b.view(), c.view());
            time_on_device(
                state, one.device, [&] { one.device.execute(gemm); }, gemm.cost().flops);
          });
}

/// Heads of all sequences of a microbatch.
struct Heads {
  int64_t count, sequence, size;
};

/// Causal attention in bf16, forward or backward. Gradients' own FLOPs are five products.
void time_attention(benchmark::State& state, const Target& target, const Heads& heads,
                    bool backward) {
  OneDevice one(target);
  const Shape shape = {heads.count, heads.sequence, heads.size};
  const auto drawn = [&] { return std::make_unique<Buffer>(one.device, DType::bf16, shape); };
  const auto q = drawn(), k = drawn(), v = drawn(), y = drawn(), dy = drawn(), dq = drawn(),
             dk = drawn(), dv = drawn();
  const Buffer log_sum_exp(one.device, DType::f32, {heads.count, heads.sequence});
  const FusedAttention forward = {.q = q->view(),
                                  .k = k->view(),
                                  .v = v->view(),
                                  .y = y->view(),
                                  .log_sum_exp = log_sum_exp.view(),
                                  .scale = 1 / std::sqrt(static_cast<float>(heads.size)),
                                  .causal = true,
                                  .dropout = {}};
  const FusedAttentionBackward gradients = {
      .forward = forward, .dy = dy->view(), .dq = dq->view(), .dk = dk->view(), .dv = dv->view()};
  one.device.execute(forward);
  const Operation operation = backward ? Operation(gradients) : Operation(forward);
  time_on_device(
      state, one.device, [&] { one.device.execute(operation); }, cost_of(operation).flops);
}

/// Layers of GPT-2 124M and 1.5B, the 22B model and Llama 3 8B, as they train on one GPU.
void add_attention(const SharedTarget& target) {
  for (const Heads& heads :
       {Heads{192, 1024, 64}, {100, 1024, 64}, {256, 2048, 96}, {32, 8192, 128}})
    for (const bool backward : {false, true})
      add(fmt::format("attention/{}/{}x{}x{}", backward ? "backward" : "forward", heads.count,
                      heads.sequence, heads.size),
          [=](benchmark::State& state) { time_attention(state, *target, heads, backward); });
}

/// The host's seconds to issue an operation among many, and the device's from one to the next.
void add_issuing(const SharedTarget& target, const std::string& name,
                 std::function<Operation(const View& x, const View& y)> make) {
  const auto run = [=](benchmark::State& state, bool by_host) {
    constexpr int64_t size = 16;
    constexpr int many = 200;  // fewer than a launch queue holds
    OneDevice one(*target);
    const Buffer x(one.device, DType::bf16, {size, size}), y(one.device, DType::bf16, {size, size});
    const Operation operation = make(x.view(), y.view());
    one.device.execute(operation);
    for (auto _ : state) {
      one.device.synchronize();
      double on_host = 0;
      const double on_device = one.device.seconds_on(Stream::compute, [&] {
        const double begin = steady_seconds();
        for (int i = 0; i < many; ++i) one.device.execute(operation);
        on_host = steady_seconds() - begin;
      });
      state.SetIterationTime((by_host ? on_host : on_device) / many);
    }
  };
  add(fmt::format("{}/on-device", name), [=](benchmark::State& state) { run(state, false); });
  if (!target->simulated())  // whose host's time is modelled
    add(fmt::format("{}/issue", name), [=](benchmark::State& state) { run(state, true); });
}

/// A collective of bf16 numbers between ranks that share a model's layers, by rank 0's device; and
/// bytes of the whole buffer per second.
void time_collective(benchmark::State& state, const Target& target, int ranks, int64_t bytes,
                     void (*run)(Communicator& group, const View& all, const View& shard)) {
  const auto cluster = target.cluster(config_of_ranks(ranks));
  const int64_t elements = bytes / size_of(DType::bf16) / ranks * ranks;
  for (auto _ : state) {
    double seconds = 0;
    cluster->run([&](Rank& rank) {
      Communicator& group = rank.tensor_group;
      const Tensor all = rank.allocate(DType::bf16, {elements}),
                   shard = rank.allocate(DType::bf16, {elements / ranks});
      rank.run(Fill{all, 0});  // sums that are repeated must stay numbers
      rank.run(Fill{shard, 0});
      run(group, all, shard);  // connects them
      rank.device.synchronize();
      group.barrier();
      const double taken = rank.device.seconds_on(Stream::compute, [&] {
        for (int i = 0; i < in_a_row; ++i) run(group, all, shard);
      });
      if (group.rank() == 0) seconds = taken / in_a_row;
    });
    state.SetIterationTime(seconds);
  }
  state.counters["bytes_per_second"] =
      benchmark::Counter(static_cast<double>(elements * size_of(DType::bf16)),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void add_collectives(const SharedTarget& target) {
  const int ranks =
      target->simulated() ? target->machine()->devices_per_node : static_cast<int>(gpus().size());
  if (ranks < 2) return;
  using Run = void (*)(Communicator & group, const View& all, const View& shard);
  const std::pair<const char*, Run> collectives[] = {
      {"all-reduce",
       [](Communicator& group, const View& all, const View&) { group.all_reduce(all).wait(); }},
      {"all-gather", [](Communicator& group, const View& all,
                        const View& shard) { group.all_gather(shard, all).wait(); }},
      {"reduce-scatter", [](Communicator& group, const View& all, const View& shard) {
         group.reduce_scatter(all, shard).wait();
       }}};
  for (const auto& [name, run] : collectives)
    for (int64_t bytes = int64_t{1} << 12; bytes <= int64_t{1} << 28; bytes *= 16)
      add(fmt::format("{}/{}/{}", name, ranks, bytes), [=, run = run](benchmark::State& state) {
        time_collective(state, *target, ranks, bytes, run);
      });
}

}  // namespace

void add_device_benchmarks(const SharedTarget& target) {
  for (const DType type : {DType::bf16, DType::f32}) add_products(target, type);
  add_attention(target);
  add_issuing(target, "launch", [](const View& x, const View&) { return Fill{x, 1}; });
  add_issuing(target, "small-gemm",
              [](const View& x, const View& y) { return Gemm{.a = x, .b = x, .c = y}; });
  add_collectives(target);
}

}  // namespace frugal::bench
