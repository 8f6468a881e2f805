#include "kernels/table/operation_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
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

const Operand& Case::operand(const std::string& name) const {
  for (const Operand& candidate : operands) {
    if (candidate.name == name) return candidate;
  }
  throw std::out_of_range("no operand " + name);
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

}  // namespace frugal::kernels::table
