// Every memory-bound row of the operation table, far out of cache, against a copy: on the CPU a
// parallel memcpy, on a GPU the driver's own, on a virtual machine what its memory moves.
#include <fmt/format.h>

#include <cstring>
#include <random>

#include "bench/compare/contest.h"
#include "harness/place/device_kind.h"
#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/virtual/device.h"
#include "tests/support/operation_table.h"

namespace frugal::bench {
namespace {

using table::Case;
using table::Draw;
using table::Operand;
using table::Setting;

constexpr int64_t cols = 1024;

/// How much one execution moves, several times any last-level cache, so that nothing of one is
/// there in the next; and how many make one sample.
struct Amount {
  double bytes = 192 << 20;
  int repetitions = 1;
};
constexpr Amount on_cpu{}, on_gpu{512 << 20, 20};

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
Setting enlarged(const table::Row& row, DType type, double bytes_to_move) {
  Setting setting = {type, cols, cols, 0};  // elements stand as in a serial run
  const double factor = bytes_to_move / Bytes(row.build(setting)).moved;
  setting.rows = static_cast<int64_t>(static_cast<double>(cols) * factor) + 1;
  return setting;
}

/// Not products; not what leaves most of its operands alone (a loss from its statistics): to move
/// much, that would need far more memory than there is; and not transfers, which the link to the
/// host bounds.
bool memory_bound(const table::Row& row) {
  if (row.name.starts_with(Transfer::name)) return false;
  const Bytes bytes(row.build({DType::f32, cols, cols, 1}));
  return row.by_hand.flops == 0 && bytes.moved > bytes.held / 2;
}

/// Issues a copy of as many bytes as `to` has.
void issue_copy(Device& device, const View& to, const View& from) {
  if (!device.backed())
    device.execute(Convert{from, to});
  else if (device.name() == "cuda")
    copy_on_gpu(device, to, from);
  else
    std::memcpy(to.data, from.data, static_cast<size_t>(to.bytes()));
}

/// Writes the view's first `done` bytes behind them again and again, on the device: the host would
/// take longer for that than all contests take.
void repeat(Device& device, const View& view, int64_t done) {
  auto* const begin = static_cast<char*>(view.data);
  const auto part = [&](int64_t at, int64_t size) { return View(begin + at, DType::u8, {size}); };
  for (; done < view.bytes(); done *= 2) {
    const int64_t size = std::min(done, view.bytes() - done);
    issue_copy(device, part(done, size), part(0, size));
  }
}

/// Plausible elements, random everywhere: a Buffer's normal numbers are, and of others a tile is
/// drawn and repeated over the operand. Indices are all drawn, so that they reach the whole table.
void fill(Device& device, const View& view, const Operand& operand) {
  const bool integer = operand.type == DType::u8 || operand.type == DType::i32;
  if (operand.draw == Draw::normal && !integer) return;
  constexpr int64_t prime = 65537;  // rows differ
  const int64_t tile = operand.type == DType::i32 ? view.size() : std::min(prime, view.size());
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
  device.copy_from_host(View(view.data, operand.type, {tile}), bytes.data());
  repeat(device, view, static_cast<int64_t>(bytes.size()));
  device.synchronize();
}

/// What operations are held against: reads and writes as many bytes as one of them does.
class Copy {
 public:
  Copy(Device& device, const Options& options, double bytes)
      : device_(device),
        threads_(options.threads),
        issued_(device_kind(options.on) != DeviceKind::cpu),
        from_(device, DType::f32, shape(bytes)),
        to_(device, DType::f32, shape(bytes)) {}
  double bytes() const { return 2.0 * static_cast<double>(from_.view().bytes()); }

  void operator()() const {
    if (issued_)
      issue_copy(device_, to_.view(), from_.view());
    else
      copy_in_threads();
  }

 private:
  static Shape shape(double bytes) { return {static_cast<int64_t>(bytes / 2 / sizeof(float))}; }

  void copy_in_threads() const {
    const int64_t part = from_.view().bytes() / threads_;
#pragma omp parallel for num_threads(threads_)
    for (int i = 0; i < threads_; ++i) {
      std::memcpy(static_cast<char*>(to_.view().data) + i * part,
                  static_cast<const char*>(from_.view().data) + i * part,
                  static_cast<size_t>(part));
    }
  }

  Device& device_;
  int threads_;
  bool issued_;
  Buffer from_, to_;
};

void add(Report& report, Device& device, const Copy& copy, const Amount& amount,
         const table::Row& row, DType type) {
  const Setting setting = enlarged(row, type, amount.bytes);
  const Case test_case = row.build(setting);
  std::vector<std::unique_ptr<Buffer>> buffers;
  table::Views views;
  for (const Operand& operand : test_case.operands) {
    buffers.push_back(std::make_unique<Buffer>(device, operand.type, operand.shape));
    if (device.backed()) fill(device, buffers.back()->view(), operand);
    views.set(operand.name, buffers.back()->view());
  }
  const Operation operation = test_case.bind(views);
  const auto repeated = [&](const auto& work) {
    return [&] {
      for (int i = 0; i < amount.repetitions; ++i) work();
      device.synchronize();
    };
  };
  const auto run = [&] { device.execute(operation); };
  Contest contest{fmt::format("{}/{}", row.name, name_of(type)),
                  cost_of(operation).bytes,
                  copy.bytes(),
                  repeated(run),
                  repeated(copy),
                  amount.repetitions};
  if (!device.backed()) contest.clock = [&] { return device.now(); };
  report.add(contest);
}

std::unique_ptr<Device> device_of(const Options& options) {
  switch (device_kind(options.on)) {
    case DeviceKind::cuda:
      return make_cuda_device();
    case DeviceKind::simulated:
      return std::make_unique<VirtualDevice>(
          find_machine(options.on.substr(options.on.find(':') + 1)), 1);
    case DeviceKind::cpu:
      break;
  }
  return std::make_unique<CpuDevice>(options.threads);
}

}  // namespace

void compare_memory_bound(Report& report) {
  const Options& options = report.options();
  const Amount amount = device_kind(options.on) == DeviceKind::cpu ? on_cpu : on_gpu;
  const std::unique_ptr<Device> device = device_of(options);
  const Copy copy(*device, options, amount.bytes);
  for (const table::Row& row : table::rows()) {
    if (!memory_bound(row)) continue;
    for (const DType type : {DType::f32, DType::bf16}) {
      if (report.wants(fmt::format("{}/{}", row.name, name_of(type)))) {
        add(report, *device, copy, amount, row, type);
      }
    }
  }
}

}  // namespace frugal::bench
