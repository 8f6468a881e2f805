// Every memory-bound row of the operation table, far out of cache, against a parallel copy.
#include <fmt/format.h>

#include <cstring>
#include <random>

#include "bench/compare/contest.h"
#include "kernels/cpu/device.h"
#include "tests/support/operation_table.h"

namespace frugal::bench {
namespace {

using table::Case;
using table::Draw;
using table::Operand;
using table::Setting;

/// Several times any last-level cache, so that nothing of one run is there in the next.
constexpr double bytes_to_move = 192 << 20;
constexpr int64_t cols = 1024;

/// Bytes of a case: moved, and of all its operands.
struct Bytes {
  double moved = 0, held = 0;

  explicit Bytes(const Case& test_case) : moved(cost_of(unbacked(test_case)).bytes) {
    for (const Operand& operand : test_case.operands) {
      held += static_cast<double>(operand.shape.size() * size_of(operand.type));
    }
  }
};

/// The fewest rows that move so much.
Setting enlarged(const table::Row& row, DType type) {
  Setting setting = {type, cols, cols, 0};  // elements stand as in a serial run
  const double factor = bytes_to_move / Bytes(row.build(setting)).moved;
  setting.rows = static_cast<int64_t>(static_cast<double>(cols) * factor) + 1;
  return setting;
}

/// Not products, and not what leaves most of its operands alone (a loss from its statistics): to
/// move much, that would need far more memory than there is.
bool memory_bound(const table::Row& row) {
  const Bytes bytes(row.build({DType::f32, cols, cols, 1}));
  return row.by_hand.flops == 0 && bytes.moved > bytes.held / 2;
}

/// Plausible elements: what is drawn for one tile is repeated over the operand. Indices are all
/// drawn, so that they reach the whole table.
void fill(const View& view, const Operand& operand) {
  const int64_t tile = operand.type == DType::i32 ? view.size() : 4099;  // prime: rows differ
  Case small;
  small.operands = {operand};
  small.operands[0].shape = {tile};
  small.operands[0].role = table::Role::input;
  std::vector<double> values = table::random_values(small, 1).at(operand.name);
  if (operand.draw == Draw::fraction) {
    for (double& value : values) value *= static_cast<double>(tile) / cols;
  }
  std::vector<char> bytes(static_cast<size_t>(tile * size_of(operand.type)));
  table::store(operand.type, values, bytes.data());
  const auto length = static_cast<int64_t>(bytes.size());
  for (int64_t at = 0; at < view.bytes(); at += length) {
    std::memcpy(static_cast<char*>(view.data) + at, bytes.data(),
                static_cast<size_t>(std::min(length, view.bytes() - at)));
  }
}

/// Reads and writes as many bytes as an operation does; plain memcpy in each thread.
class Copy {
 public:
  explicit Copy(Device& device, int threads)
      : threads_(threads), from_(device, DType::f32, shape()), to_(device, DType::f32, shape()) {}
  static double bytes() { return 2.0 * static_cast<double>(shape().size()) * sizeof(float); }

  void operator()() const {
    const int64_t part = from_.view().bytes() / threads_;
#pragma omp parallel for num_threads(threads_)
    for (int i = 0; i < threads_; ++i) {
      std::memcpy(static_cast<char*>(to_.view().data) + i * part,
                  static_cast<const char*>(from_.view().data) + i * part,
                  static_cast<size_t>(part));
    }
  }

 private:
  static Shape shape() { return {static_cast<int64_t>(bytes_to_move / 2 / sizeof(float))}; }
  int threads_;
  Buffer from_, to_;
};

void add(Report& report, CpuDevice& device, const Copy& copy, const table::Row& row, DType type) {
  const Setting setting = enlarged(row, type);
  const Case test_case = row.build(setting);
  std::vector<std::unique_ptr<Buffer>> buffers;
  table::Views views;
  for (const Operand& operand : test_case.operands) {
    buffers.push_back(std::make_unique<Buffer>(device, operand.type, operand.shape));
    fill(buffers.back()->view(), operand);
    views.set(operand.name, buffers.back()->view());
  }
  const Operation operation = test_case.bind(views);
  report.add({fmt::format("{}/{}", row.name, name_of(type)), cost_of(operation).bytes,
              Copy::bytes(),
              [&] {
                device.execute(operation);
                device.synchronize();
              },
              [&] { copy(); }});
}

}  // namespace

void compare_memory_bound(const Options& options) {
  Report report(options, "GB/s");
  CpuDevice device(options.threads);
  const Copy copy(device, options.threads);
  for (const table::Row& row : table::rows()) {
    if (!memory_bound(row)) continue;
    for (const DType type : {DType::f32, DType::bf16}) {
      if (report.wants(fmt::format("{}/{}", row.name, name_of(type)))) {
        add(report, device, copy, row, type);
      }
    }
  }
  report.finish();
}

}  // namespace frugal::bench
