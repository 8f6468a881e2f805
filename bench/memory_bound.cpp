// Every memory-bound row of the operation table, far out of cache and as wide as in models, against
// a copy: on the CPU a parallel memcpy, on a GPU the driver's own, on a virtual machine what its
// memory moves.
#include <algorithm>
#include <cstring>

#include "bench/benchmarks.h"
#include "bench/timed.h"
#include "harness/place/target.h"
#include "kernels/cuda/gpus.h"
#include "kernels/table/operation_table.h"

namespace frugal::bench {
namespace {

/// Widths of models that train on one GPU: GPT-2 124M and 1.5B, Llama 3 8B and the 22B model, and
/// of the vocabularies of these.
constexpr int64_t hidden_sizes[] = {768, 1600, 4096, 6144};
constexpr int64_t vocabularies[] = {50304, 128256};
/// Width of operations that compute element by element, wherever a row ends.
constexpr int64_t any_width = 4096;

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

/// Widths that rows have in models, in bf16 at all such widths and in f32 at one.
bool has_width(const std::string& row, DType type, int64_t width) {
  const bool all = type == DType::bf16;
  const auto is_one_of = [&](const auto& widths) {
    return std::find(std::begin(widths), std::end(widths), width) != std::end(widths);
  };
  if (is_any_of(row, {"cross-entropy", "soft-cap"}))
    return all ? is_one_of(vocabularies) : width == vocabularies[0];
  if (all && is_any_of(row, {"norm", "bias", "column-sum", "embedding"}) &&
      !row.starts_with(RandomNormal::name))
    return is_one_of(hidden_sizes);
  return width == any_width;
}

std::vector<std::string> widths() {
  std::vector<std::string> all;
  for (const int64_t width : hidden_sizes) all.push_back(std::to_string(width));
  for (const int64_t width : vocabularies) all.push_back(std::to_string(width));
  return all;
}

/// How much one execution moves, several times any last-level cache, so that nothing of one is
/// there in the next; and how many make one sample: a GPU's are over too soon to time one alone.
struct Amount {
  double bytes = 0;
  int repetitions = 1;

  explicit Amount(DeviceKind kind)
      : bytes(kind == DeviceKind::cpu ? 192 << 20 : 512 << 20),
        repetitions(kind == DeviceKind::cpu ? 1 : 20) {}
};

double bytes_moved(const table::Case& operation) { return cost_of(unbacked(operation)).bytes; }

double bytes_held(const table::Case& operation) {
  double bytes = 0;
  for (const table::Operand& operand : operation.operands)
    bytes += static_cast<double>(operand.shape.size() * size_of(operand.type));
  return bytes;
}

/// At the fewest rows that move so many bytes.
table::Case enlarged(const table::Row& row, DType type, int64_t width, double bytes) {
  constexpr int64_t some = 1024;
  table::Setting setting = {type, some, width, 0};  // elements stand as in a serial run
  const double factor = bytes / bytes_moved(row.build(setting));
  setting.rows = static_cast<int64_t>(static_cast<double>(some) * factor) + 1;
  return row.build(setting);
}

/// Not products; not what leaves most of its operands alone (a loss from its statistics): to move
/// much, that would need far more memory than there is; and not transfers, which the link to the
/// host bounds.
bool is_memory_bound(const table::Row& row) {
  if (row.name.starts_with(Transfer::name)) return false;
  const table::Case operation = row.build({DType::f32, any_width, any_width, 1});
  return row.by_hand.flops == 0 && bytes_moved(operation) > bytes_held(operation) / 2;
}

std::vector<std::string> memory_bound_rows() {
  std::vector<std::string> names;
  for (const table::Row& row : table::rows())
    if (is_memory_bound(row)) names.push_back(row.name);
  return names;
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
/// take longer for that than all rounds take.
void repeat_first(Device& device, const View& view, int64_t done) {
  auto* const begin = static_cast<char*>(view.data);
  const auto part = [&](int64_t at, int64_t size) { return View(begin + at, DType::u8, {size}); };
  for (; done < view.bytes(); done *= 2) {
    const int64_t size = std::min(done, view.bytes() - done);
    issue_copy(device, part(done, size), part(0, size));
  }
}

/// Plausible elements, random everywhere: a Buffer's normal numbers are, and of others a tile is
/// drawn and repeated over the operand. Indices are all drawn, so that they reach the whole table.
void draw_elements(Device& device, const View& view, const table::Operand& operand, int64_t width) {
  const bool integer = operand.type == DType::u8 || operand.type == DType::i32;
  if (operand.draw == table::Draw::normal && !integer) return;
  constexpr int64_t prime = 65537;  // rows differ
  const int64_t tile = operand.type == DType::i32 ? view.size() : std::min(prime, view.size());
  table::Case small;
  small.operands = {operand};
  small.operands[0].shape = {tile};
  small.operands[0].role = table::Role::input;
  std::vector<double> values = table::random_values(small, 1).at(operand.name);
  if (operand.draw == table::Draw::fraction)
    for (double& value : values) value *= static_cast<double>(tile) / static_cast<double>(width);
  std::vector<char> bytes(static_cast<size_t>(tile * size_of(operand.type)));
  table::store(operand.type, values, bytes.data());
  device.copy_from_host(View(view.data, operand.type, {tile}), bytes.data());
  repeat_first(device, view, static_cast<int64_t>(bytes.size()));
  device.synchronize();
}

/// A row's operation with its operands.
struct OnItsDevice : OneDevice {
  std::vector<std::unique_ptr<Buffer>> buffers;
  Operation operation;

  OnItsDevice(const Target& target, const table::Case& enlarged, int64_t width)
      : OneDevice(target) {
    table::Views views;
    for (const table::Operand& operand : enlarged.operands) {
      buffers.push_back(std::make_unique<Buffer>(device, operand.type, operand.shape));
      if (device.backed()) draw_elements(device, buffers.back()->view(), operand, width);
      views.set(operand.name, buffers.back()->view());
    }
    operation = enlarged.bind(views);
  }
};

/// What operations are held against: reads and writes as many bytes as one of them does.
struct WholeCopy : OneDevice {
  int threads;
  Buffer from, to;

  WholeCopy(const Target& target, double bytes)
      : OneDevice(target),
        threads(target.threads().value_or(0)),
        from(device, DType::f32, {static_cast<int64_t>(bytes / 2 / sizeof(float))}),
        to(device, DType::f32, from.view().shape) {}
  double bytes() const { return 2.0 * static_cast<double>(from.view().bytes()); }

  void operator()() const {
    if (threads == 0) return issue_copy(device, to.view(), from.view());
    const int64_t part = from.view().bytes() / threads;
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; ++i)
      std::memcpy(static_cast<char*>(to.view().data) + i * part,
                  static_cast<const char*>(from.view().data) + i * part, static_cast<size_t>(part));
  }
};

std::unique_ptr<CaseRun> run_of_row(const Target& target, const table::Row& row, DType type,
                                    int64_t width) {
  const Amount amount(target.kind());
  const auto of =
      std::make_shared<OnItsDevice>(target, enlarged(row, type, width, amount.bytes), width);
  const auto issue = [of] { of->device.execute(of->operation); };
  return std::make_unique<Timed>(cost_of(of->operation).bytes, "bytes",
                                 timed_on(of->device, issue, amount.repetitions));
}

std::unique_ptr<CaseRun> run_of_copy(const Target& target) {
  const Amount amount(target.kind());
  const auto copy = std::make_shared<WholeCopy>(target, amount.bytes);
  const auto issue = [copy] { (*copy)(); };
  return std::make_unique<Timed>(copy->bytes(), "bytes",
                                 timed_on(copy->device, issue, amount.repetitions));
}

}  // namespace

const Benchmark& memory_bound() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "memory-bound",
      .title = "Memory-bound operations out of cache, against a copy of as many bytes",
      .axes = {{"type", {"f32", "bf16"}},
               {"operation", memory_bound_rows()},
               {"width", widths()},
               {"by", {"frugal", "copy"}}},
      .at = [](const Point& point) -> std::optional<BenchmarkCase> {
        const table::Row& row = table::row(point.at("operation"));
        const int64_t width = std::stoll(point.at("width"));
        if (!has_width(row.name, type_at(point), width)) return std::nullopt;
        if (point.at("by") == "copy") return without_model(run_of_copy);
        return without_model([type = type_at(point), &row, width](const Target& target) {
          return run_of_row(target, row, type, width);
        });
      },
      .by_turns = {"by"},
      .reference = Reference{"by", {"copy"}},
      .columns = {{"GB/s", metric::time, Shows::rate, 1e9},
                  {"times a copy's", metric::time, Shows::speed}},
      .places = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::simulated}};
  return benchmark;
}

}  // namespace frugal::bench
