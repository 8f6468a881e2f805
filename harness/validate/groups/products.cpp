// What is large: products and copies as they are timed, collectives, and whether a training step
// computes the same twice.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/train/trainer.h"
#include "harness/measure/interrupt.h"
#include "harness/peaks/peak.h"
#include "harness/settings/models.h"
#include "harness/validate/group.h"
#include "kernels/table/operation_table.h"

namespace frugal::harness {
namespace {

using Bytes = std::vector<char>;

Finding large_check(const char* name, const char* expected) {
  Finding check{"products", name};
  check.expected = expected;
  return check;
}

void is_wrong(Finding& check, std::string reason) {
  check.outcome = Finding::Outcome::failed;
  check.computes_wrongly = true;
  check.reason = std::move(reason);
  check.advice = "do not use this device: test its memory, and validate again";
}

Bytes bytes_of_tensor(Rank& rank, const Tensor& tensor) {
  Bytes bytes(static_cast<size_t>(tensor.view().bytes()));
  rank.device.copy_to_host(bytes.data(), tensor);
  return bytes;
}

std::vector<double> values_of_tensor(Rank& rank, const Tensor& tensor) {
  return table::load(tensor.type(), bytes_of_tensor(rank, tensor).data(), tensor.view().size());
}

Tensor normal_tensor(Rank& rank, DType type, const Shape& shape, uint32_t number) {
  Tensor tensor = rank.allocate(type, shape);
  rank.run(RandomNormal{.x = tensor, .deviation = 1, .stream = {1, 2, number}, .index = {}});
  return tensor;
}

/// The first element of c [n, n] that is farther from Σ a·b than as many roundings of Σ|a·b| as it
/// has terms; empty where none is.
std::string first_wrong(const std::vector<double>& a, const std::vector<double>& b,
                        const std::vector<double>& c, int64_t n, DType type) {
  const double sum_rounding =
      static_cast<double>(n + 2) * table::unit_roundoff(accumulation_type(type));
  const auto size = static_cast<size_t>(n);
  std::vector<double> sum(size), scale(size);
  for (size_t i = 0; i < size; ++i) {
    stop_if_interrupted();
    std::fill(sum.begin(), sum.end(), 0.0);
    std::fill(scale.begin(), scale.end(), 0.0);
    for (size_t l = 0; l < size; ++l)
      for (size_t j = 0; j < size; ++j) {
        const double term = a[i * size + l] * b[l * size + j];
        sum[j] += term;
        scale[j] += std::abs(term);
      }
    for (size_t j = 0; j < size; ++j) {
      const double found = c[i * size + j];
      const double allowed =
          sum_rounding * scale[j] + table::unit_roundoff(type) * std::abs(sum[j]);
      if (!(std::abs(found - sum[j]) <= allowed))
        return fmt::format("element [{}, {}] is {} instead of {}", i, j, found, sum[j]);
    }
  }
  return "";
}

Finding product_check(Rank& rank, bool quick, DType type) {
  Finding check = large_check(type == DType::f32 ? "product/f32" : "product/bf16",
                              "the product in float64; and the same bits again and again");
  const double start = steady_seconds();
  const int64_t n = quick ? 384 : 768;
  const int repetitions = quick ? 20 : 100;
  const Tensor a = normal_tensor(rank, type, {n, n}, 1), b = normal_tensor(rank, type, {n, n}, 2),
               c = rank.allocate(type, {n, n});
  const Gemm gemm{.a = a, .b = b, .c = c};
  rank.run(gemm);
  const Bytes first = bytes_of_tensor(rank, c);
  const std::string wrong = first_wrong(values_of_tensor(rank, a), values_of_tensor(rank, b),
                                        values_of_tensor(rank, c), n, type);
  if (!wrong.empty()) is_wrong(check, wrong);
  for (int i = 0; i < repetitions && check.outcome == Finding::Outcome::passed; ++i) {
    stop_if_interrupted();
    rank.run(gemm);
    if (bytes_of_tensor(rank, c) != first) is_wrong(check, "the same product has other bits");
  }
  check.seen =
      fmt::format("{0} x {0} x {0}, once with float64 and {1} times with itself", n, repetitions);
  check.band = "as many roundings of the sum of magnitudes as the sum has terms; no bit, again";
  check.seconds = steady_seconds() - start;
  return check;
}

/// The first byte that differs; empty where none does.
std::string first_other(const Bytes& a, const Bytes& b, const char* what) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first;
  return at == a.end() ? "" : fmt::format("byte {} {}", at - a.begin(), what);
}

/// A large part of memory is written, copied and read back, and what was written is written once
/// more elsewhere: a bit that is stuck is wrong in one of them alone.
Finding memory_check(Rank& rank, bool quick) {
  Finding check = large_check("memory", "the bytes that were written");
  const double start = steady_seconds();
  const int64_t bytes = int64_t{1} << (quick ? 27 : 30);
  const int64_t elements = bytes / size_of(DType::f32);
  const Tensor x = normal_tensor(rank, DType::f32, {elements}, 3),
               y = rank.allocate(DType::f32, {elements});
  rank.run(Convert{x, y});
  const Bytes written = bytes_of_tensor(rank, x);
  std::string wrong = first_other(written, bytes_of_tensor(rank, y), "of a copy is another one");
  rank.run(RandomNormal{.x = y, .deviation = 1, .stream = {1, 2, 3}, .index = {}});
  if (wrong.empty())
    wrong = first_other(written, bytes_of_tensor(rank, y), "is another one where it is written");
  if (!wrong.empty()) is_wrong(check, wrong);
  check.seen = fmt::format("{} MiB of random numbers, copied, and written twice", bytes >> 20);
  check.band = "no bit";
  check.seconds = steady_seconds() - start;
  return check;
}

std::vector<Finding> device_checks(Rank& rank, bool quick) {
  return {product_check(rank, quick, DType::f32), product_check(rank, quick, DType::bf16),
          memory_check(rank, quick)};
}

/// Sums of whole numbers, which no order of summation changes.
Finding collective_check(Workbench& bench) {
  Finding check = large_check("collectives", "sums of whole numbers, exactly");
  if (const std::string why = bench.why_no_ranks(); !why.empty())
    return skipped_finding(check.group, check.name, why);
  const double start = steady_seconds();
  const int ranks = bench.ranks();
  const int64_t part = 4099;
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  bench.cluster_of_ranks().run([&](Rank& rank) {
    std::vector<float> numbers(static_cast<size_t>(part * ranks));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<float>(i % 251 * static_cast<size_t>(rank.index + 1));
    const Tensor data = rank.allocate(DType::f32, {part * ranks}),
                 shard = rank.allocate(DType::f32, {part});
    rank.device.copy_from_host(data, numbers.data());
    rank.tensor_group.reduce_scatter(data, shard).wait();
    rank.tensor_group.all_gather(shard, data).wait();
    rank.device.copy_to_host(numbers.data(), data);
    const auto sum_of_ranks = static_cast<size_t>(ranks * (ranks + 1) / 2);
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != static_cast<float>(i % 251 * sum_of_ranks))
        wrong[static_cast<size_t>(rank.index)] =
            fmt::format("rank {} has {} instead of {} at [{}]", rank.index, numbers[i],
                        i % 251 * sum_of_ranks, i);
  });
  for (const std::string& one : wrong)
    if (!one.empty()) is_wrong(check, one);
  check.seen =
      fmt::format("reduce-scatter and all-gather of {} numbers by {} ranks", part * ranks, ranks);
  check.band = "no bit";
  check.seconds = steady_seconds() - start;
  return check;
}

std::vector<double> losses_of_training(const Target& target) {
  RunConfig config;
  config.model = find_model("gpt-tiny");
  config.micro_batch = 2;
  const auto cluster = target.cluster(config);
  Trainer trainer(*cluster, config, TrainConfig{});
  std::vector<double> losses;
  for (int64_t step = 0; step < 4; ++step)
    losses.push_back(trainer.step(random_batch(config, step)).loss);
  return losses;
}

Finding training_check(Workbench& bench) {
  Finding check = large_check("training", "the same losses in both of two trainings");
  const double start = steady_seconds();
  const auto one_thread = make_target({.threads = 1});
  const Target& target =
      bench.quick() && !bench.on_gpu() ? *one_thread : bench.target();  // as operations
  const std::vector<double> first = losses_of_training(target), second = losses_of_training(target);
  for (size_t i = 0; i < first.size() && check.outcome == Finding::Outcome::passed; ++i)
    if (!(first[i] == second[i]))
      is_wrong(check, fmt::format("step {} has loss {} and then {}", i + 1, first[i], second[i]));
  check.seen = fmt::format("{} steps of gpt-tiny, twice", first.size());
  check.band = "no bit";
  check.seconds = steady_seconds() - start;
  return check;
}

std::vector<Finding> check_large(Workbench& bench) {
  std::vector<Finding> findings = of_each_device(
      bench.devices(bench.rank()), [&](Rank& rank) { return device_checks(rank, bench.quick()); });
  findings.push_back(collective_check(bench));
  findings.push_back(training_check(bench));
  return findings;
}

}  // namespace

CheckGroup products_group() {
  return {.name = "products",
          .question = "are large products, copies, sums of ranks and trainings right, every time?",
          .before = check_large};
}

}  // namespace frugal::harness
