#include "harness/validate/groups/out_of_cache.h"

#include <algorithm>

#include "harness/peaks/peak.h"
#include "kernels/table/operation_table.h"

namespace frugal::harness {
namespace {

constexpr int64_t columns = 1024;

/// Bytes that one execution moves, and how many operands of its own it has.
struct PartSize {
  int64_t bytes = 0;
  int count = 0;

  explicit PartSize(const Workbench& bench)
      : bytes(bench.on_gpu() ? 256 << 20 : 6 << 20), count(bench.on_gpu() ? 2 : 24) {}
};

/// As many of an operation as there are parts, each with its own operands.
struct PartsOfRow {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
};

Tensor tensor_of_values(Rank& rank, const table::Operand& operand,
                        const std::vector<double>& values) {
  std::vector<char> bytes(static_cast<size_t>(operand.shape.size() * size_of(operand.type)));
  table::store(operand.type, values, bytes.data());
  Tensor tensor = rank.allocate(operand.type, operand.shape);
  rank.device.copy_from_host(tensor, bytes.data());
  return tensor;
}

/// At the fewest rows that move so many bytes.
table::Case case_of_bytes(const table::Row& row, int64_t bytes) {
  table::Setting setting = {DType::f32, columns, columns, 0};
  const double moved = cost_of(unbacked(row.build(setting))).bytes;
  setting.rows = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(columns) * static_cast<double>(bytes) / moved));
  return row.build(setting);
}

PartsOfRow parts_of(Rank& rank, const table::Case& one, int count) {
  PartsOfRow parts;
  const table::Values values = table::random_values(one, 7);
  for (int i = 0; i < count; ++i) {
    table::Views views;
    for (const table::Operand& operand : one.operands) {
      parts.tensors.push_back(tensor_of_values(rank, operand, values.at(operand.name)));
      views.set(operand.name, parts.tensors.back());
    }
    parts.operations.push_back(one.bind(views));
  }
  return parts;
}

Probe probe_of_parts(Workbench& bench, Rank& rank, std::string key, std::string what,
                     PartsOfRow made) {
  const auto parts = std::make_shared<PartsOfRow>(std::move(made));
  const auto timed = std::make_shared<Repeated>(
      repeated_in_turn(rank.device, parts->operations, shortest_sample(bench.target())));
  return {.key = std::move(key),
          .what = std::move(what),
          .unit = "B/s",
          .work = cost_of(parts->operations.front()).bytes,
          .burst = bench.on_gpu() ? 1 : PartSize(bench).count / 2,
          .seconds = [parts, timed] { return timed->run(); }};
}

PartsOfRow copies(Rank& rank, const PartSize& size) {
  PartsOfRow parts;
  for (int i = 0; i < size.count; ++i) {
    const Shape shape = {size.bytes / 2 / size_of(DType::f32)};
    const Tensor from = rank.allocate(DType::f32, shape), to = rank.allocate(DType::f32, shape);
    rank.run(RandomNormal{.x = from, .deviation = 1, .stream = {1, 2, 3}, .index = {}});
    parts.operations.emplace_back(Convert{from, to});
    parts.tensors.insert(parts.tensors.end(), {from, to});
  }
  return parts;
}

std::string by_one(const Workbench& bench) { return bench.on_gpu() ? "" : ", one thread"; }

}  // namespace

Probe row_probe(Workbench& bench, const std::string& row) {
  const PartSize size(bench);
  return probe_of_parts(
      bench, bench.core(), "memory/" + row, row + ", f32, out of cache" + by_one(bench),
      parts_of(bench.core(), case_of_bytes(table::row(row), size.bytes), size.count));
}

Probe copy_probe(Workbench& bench) {
  return probe_of_parts(bench, bench.core(), "memory/copy",
                        "copy, f32, out of cache" + by_one(bench),
                        copies(bench.core(), PartSize(bench)));
}

Probe bandwidth_probe(Workbench& bench) {
  return probe_of_parts(bench, bench.rank(), "memory_bandwidth", "copy, f32, out of cache",
                        copies(bench.rank(), PartSize(bench)));
}

}  // namespace frugal::harness
