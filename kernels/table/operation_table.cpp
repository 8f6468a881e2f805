#include "kernels/table/operation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>

namespace frugal::kernels::table {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
T stored(double value) {
  if constexpr (std::is_integral_v<T>) {
    return std::isnan(value) ? static_cast<T>(-1) : static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

/// Rounded once: through float32 a value near the middle of two neighbours would be rounded twice.
template <>
Bf16 stored<Bf16>(double value) {
  auto narrowed = static_cast<float>(value);
  const auto bits = std::bit_cast<uint32_t>(narrowed);
  if ((bits & 0xffffU) == 0x8000U && static_cast<double>(narrowed) != value) {
    const bool away = std::abs(value) > std::abs(static_cast<double>(narrowed));
    narrowed = std::bit_cast<float>(away ? bits + 1 : bits - 1);
  }
  return Bf16(narrowed);
}

/// Calls f with a value of the type that dtype names.
template <class F>
auto with_type(DType type, F&& f) {
  switch (type) {
    case DType::bf16:
      return f(Bf16());
    case DType::f64:
      return f(double{});
    case DType::u8:
      return f(uint8_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::f32:
      break;
  }
  return f(float{});
}

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

double drawn(const Operand& operand, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  switch (operand.draw) {
    case Draw::normal:
      return std::normal_distribution<double>()(random);
    case Draw::positive:
      return 0.5 + uniform(random);
    case Draw::fraction:
      return uniform(random) / static_cast<double>(operand.shape[operand.shape.dims - 1]);
    case Draw::bit:
      return uniform(random) < 0.5 ? 0 : 1;
    case Draw::id:
      return std::floor(uniform(random) * static_cast<double>(operand.limit + 4)) - 2;
  }
  return nan;
}

template <class... Ops>
std::vector<Row> rows_of_all(const std::variant<Ops...>*) {
  std::vector<Row> all;
  for (const std::vector<Row>& part : {rows_of<Ops>()...})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

constexpr int64_t guard = 64;
constexpr auto guard_byte = static_cast<std::byte>(0xA5);

/// One operand's memory on the device, between guards.
class Placed {
 public:
  Placed(Device& device, const Operand& operand, const std::vector<double>& values, int64_t shift)
      : device_(device),
        begin_(guard + shift * size_of(operand.type)),
        bytes_(operand.shape.size() * size_of(operand.type)),
        total_(begin_ + bytes_ + guard),
        data_(device.allocate(total_)) {
    std::vector<std::byte> host(static_cast<size_t>(total_), guard_byte);
    store(operand.type, values, host.data() + begin_);
    device.copy_from_host(whole(), host.data());
    view_ = View(static_cast<char*>(data_) + begin_, operand.type, operand.shape);
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() { device_.deallocate(data_, total_); }

  const View& view() const { return view_; }

  /// The operand's bytes; notes where a guard is not what it was.
  std::vector<std::byte> read(const std::string& name, AfterRun& after) const {
    std::vector<std::byte> host(static_cast<size_t>(total_));
    device_.copy_to_host(host.data(), whole());
    const auto intact = [](std::byte b) { return b == guard_byte; };
    if (!std::all_of(host.begin(), host.begin() + begin_, intact))
      after.overwritten.push_back("before " + name);
    if (!std::all_of(host.end() - guard, host.end(), intact))
      after.overwritten.push_back("behind " + name);
    return {host.begin() + begin_, host.begin() + begin_ + bytes_};
  }

 private:
  View whole() const { return {data_, DType::u8, {total_}}; }

  Device& device_;
  int64_t begin_, bytes_, total_;
  void* data_;
  View view_;
};

}  // namespace

Expected::Expected(Values before) : values_(std::move(before)), scale_(values_) {
  for (auto& [name, all] : scale_) std::fill(all.begin(), all.end(), 0);
}

Expected::Element Expected::find(const double& element) {
  for (auto& [name, all] : values_) {
    const std::less<> before;
    if (before(&element, all.data()) || !before(&element, all.data() + all.size())) continue;
    const auto i = static_cast<size_t>(&element - all.data());
    return {all[i], scale_.at(name)[i]};
  }
  throw std::out_of_range("no operand has this element");
}

void Expected::set(const double& element, double value, double scale) {
  const Element found = find(element);
  found.value = value;
  found.scale = std::max(std::abs(value), scale);
}

void Expected::add(const double& element, double term, double magnitude) {
  const Element found = find(element);
  const double before = std::max(found.scale, std::abs(found.value));
  found.value += term;
  found.scale = before + std::max(std::abs(term), magnitude);
}

void Expected::set_all(const std::string& name, const std::function<Rounded(int64_t)>& f) {
  for (int64_t i = 0; i < static_cast<int64_t>(values_.at(name).size()); ++i) {
    const Rounded element = f(i);
    set(name, i, element.value, element.scale);
  }
}

Views Expected::views(const std::vector<Operand>& operands) {
  Views all;
  for (const Operand& operand : operands)
    all.set(operand.name, View(values_.at(operand.name).data(), DType::f64, operand.shape));
  return all;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = rows_of_all(static_cast<const Operation*>(nullptr));
  return all;
}

const Row& row(const std::string& name) {
  for (const Row& candidate : rows()) {
    if (candidate.name == name) return candidate;
  }
  throw std::out_of_range("no row " + name);
}

Operation unbacked(const Case& test_case) {
  Views views;
  for (const Operand& operand : test_case.operands) {
    views.set(operand.name, View(nullptr, operand.type, operand.shape));
  }
  return test_case.bind(views);
}

Values random_values(const Case& test_case, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values;
  for (const Operand& operand : test_case.operands) {
    auto& elements = values[operand.name];
    elements.assign(static_cast<size_t>(operand.shape.size()), nan);
    if (operand.role == Role::output) continue;
    for (double& element : elements) element = round_to(operand.type, drawn(operand, random));
  }
  if (test_case.prepare) test_case.prepare(values);
  for (const Operand& operand : test_case.operands) {
    for (double& element : values[operand.name]) element = round_to(operand.type, element);
  }
  return values;
}

Expected expected(const Case& test_case, Values before) {
  Expected result(std::move(before));
  test_case.reference(result);
  return result;
}

double round_to(DType type, double value) {
  return with_type(type, [&](auto tag) { return as_double(stored<decltype(tag)>(value)); });
}

void store(DType type, const std::vector<double>& values, void* bytes) {
  with_type(type, [&](auto tag) {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto element = stored<decltype(tag)>(values[i]);
      std::memcpy(static_cast<char*>(bytes) + i * sizeof(element), &element, sizeof(element));
    }
  });
}

std::vector<double> load(DType type, const void* bytes, int64_t size) {
  std::vector<double> values(static_cast<size_t>(size));
  with_type(type, [&](auto tag) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&tag, static_cast<const char*>(bytes) + i * sizeof(tag), sizeof(tag));
      values[i] = as_double(tag);
    }
  });
  return values;
}

double unit_roundoff(DType type) {
  switch (type) {
    case DType::f32:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-8;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0;
  }
}

AfterRun run_guarded_case(Device& device, const Case& test_case, const Values& before,
                          const Layout& layout) {
  std::map<std::string, std::unique_ptr<Placed>> placed;
  std::map<std::string, std::string> shared;
  if (layout.share_aliases) shared.insert(test_case.aliases.begin(), test_case.aliases.end());
  Views views;
  for (const Operand& operand : test_case.operands) {
    if (shared.contains(operand.name)) continue;
    placed[operand.name] =
        std::make_unique<Placed>(device, operand, before.at(operand.name), layout.shift);
    views.set(operand.name, placed[operand.name]->view());
  }
  for (const auto& [output, input] : shared) views.set(output, views[input]);
  device.execute(test_case.bind(views));
  device.synchronize();
  AfterRun after;
  for (const auto& [name, memory] : placed) after.memory[name] = memory->read(name, after);
  for (const auto& [output, input] : shared) after.memory[output] = after.memory[input];
  return after;
}

Values values_of(const Case& test_case, const Memory& memory) {
  Values values;
  for (const Operand& operand : test_case.operands) {
    values[operand.name] = load(operand.type, memory.at(operand.name).data(), operand.shape.size());
  }
  return values;
}

std::optional<std::string> disagreement(const Case& test_case, const Expected& expected,
                                        const Values& actual) {
  for (const Operand& operand : test_case.operands) {
    const double u = unit_roundoff(accumulation_type(operand.type));
    const std::vector<double>& wanted = expected[operand.name];
    const std::vector<double>& scale = expected.scale(operand.name);
    const std::vector<double>& found = actual.at(operand.name);
    int64_t wrong = 0, worst = 0;
    double worst_excess = 0;
    for (int64_t i = 0; i < operand.shape.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      const double want = wanted[at], got = found[at];
      const double nearest = round_to(operand.type, want);
      if (got == nearest || (std::isnan(got) && std::isnan(nearest))) continue;
      const double allowed =
          operand.role == Role::input || test_case.roundings == 0
              ? 0
              : test_case.roundings * u * scale[at] +
                    test_case.storage_roundings * unit_roundoff(operand.type) * std::abs(want);
      const double error = std::abs(got - want);
      if (error <= allowed) continue;
      ++wrong;
      const double excess = std::isfinite(error) ? error / allowed : INFINITY;
      if (wrong == 1 || excess > worst_excess) worst = i, worst_excess = excess;
    }
    if (wrong > 0) {
      const auto at = static_cast<size_t>(worst);
      return fmt::format(
          "{} ({}): {} of {} elements differ; the worst is [{}]: {} instead of {}, {:.3g} times "
          "the "
          "allowed error",
          operand.name, name_of(operand.type), wrong, operand.shape.size(), worst, found[at],
          wanted[at], worst_excess);
    }
  }
  return std::nullopt;
}

}  // namespace frugal::kernels::table
