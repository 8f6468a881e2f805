#include "kernels/virtual/measured_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace frugal::kernels {
namespace {

/// The operand whose type is the operation's.
template <class T>
DType type_of(const T& op) {
  if constexpr (requires { op.gemm; })
    return op.gemm.a.type;
  else if constexpr (requires { op.forward; })
    return op.forward.q.type;
  else if constexpr (requires { op.update; })
    return op.update.weights.type;
  else if constexpr (requires { op.a; })
    return op.a.type;
  else if constexpr (requires { op.q; })
    return op.q.type;
  else if constexpr (requires { op.dy; })
    return op.dy.type;
  else if constexpr (requires { op.x; })
    return op.x.type;
  else if constexpr (requires { op.logits; })
    return op.logits.type;
  else if constexpr (requires { op.from; })
    return op.from.type;
  else
    return op.y.type;
}

void add_gemm(const Gemm& gemm, std::string& form) {
  if (gemm.batch() > 1) form += " batched";
  if (gemm.transpose_a) form += " transpose_a";
  if (gemm.transpose_b) form += " transpose_b";
  if (gemm.accumulate) form += " accumulate";
  if (!gemm.bias.empty()) form += " bias";
}

/// Appends what an operation may be without, as far as this one has it.
template <class T>
void add_parts(const T& op, std::string& text) {
  const auto add = [&](bool there, std::string_view part) {
    if (there) text += fmt::format(" {}", part);
  };
  if constexpr (requires { op.causal; }) add(op.causal, "causal");
  if constexpr (requires { op.window; }) add(op.window > 0, "window");
  if constexpr (requires { op.softcap; }) add(op.softcap > 0, "soft-cap");
  if constexpr (requires { op.dropout; }) add(op.dropout.active(), "dropout");
  if constexpr (requires { op.mask; }) add(!op.mask.empty(), "mask");
  if constexpr (requires { op.dropped; }) add(!op.dropped.empty(), "dropped");
  if constexpr (requires { op.residual; }) add(!op.bias.empty(), "bias");
  if constexpr (requires { op.residual; }) add(!op.residual.empty(), "residual");
  if constexpr (requires { op.dbias; }) add(!op.dbias.empty(), "dbias");
  if constexpr (requires { op.add; }) add(!op.add.empty(), "add");
  if constexpr (requires { op.gradient; }) add(!op.gradient.empty(), "gradient");
  if constexpr (std::is_same_v<T, CrossEntropy>) add(op.statistics.empty(), "at-once");
  if constexpr (requires { op.squared; }) add(op.squared, "squared");
  if constexpr (requires { op.gate; }) add(op.gate != Gate::silu, "gelu");
  if constexpr (std::is_same_v<T, Copy>) add(op.accumulate, "accumulate");
  if constexpr (std::is_same_v<T, Copy> || std::is_same_v<T, Convert>)
    add(op.y.type != op.x.type, fmt::format("to {}", name_of(op.y.type)));
}

template <class T>
std::string form(const T& op) {
  std::string text = fmt::format("{} {}", op.name, name_of(type_of(op)));
  if constexpr (requires { op.gemm; }) add_gemm(op.gemm, text);
  if constexpr (std::is_same_v<T, Gemm>) add_gemm(op, text);
  add_parts(op, text);
  if constexpr (requires { op.forward; }) add_parts(op.forward, text);
  return text;
}

MeasuredForm read_points(const JsonObject& entry) {
  entry.allow_only({"points"});
  const char* allowed =
      "must be a list of at least one [bytes, seconds], positive and rising in both";
  const nlohmann::json& list = entry.at("points");
  if (!list.is_array() || list.empty()) entry.fail("points", allowed);
  MeasuredForm read;
  MeasuredForm::Point last;
  for (const nlohmann::json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number())
      entry.fail("points", allowed);
    const MeasuredForm::Point point{pair[0].get<double>(), pair[1].get<double>()};
    if (!(point.bytes > last.bytes && point.seconds >= last.seconds && point.seconds > 0))
      entry.fail("points", allowed);
    read.points.push_back(last = point);
  }
  return read;
}

constexpr std::array<const char*, Work::terms> price_names{"once", "per_flop", "per_byte_of_a",
                                                           "per_byte_of_b", "per_byte_of_c"};

MeasuredForm read_prices(const JsonObject& entry) {
  entry.allow_only(
      {price_names[0], price_names[1], price_names[2], price_names[3], price_names[4]});
  MeasuredForm read;
  for (size_t i = 0; i < Work::terms; ++i) read.prices[i] = entry.number(price_names[i], 0);
  if (std::all_of(read.prices.begin(), read.prices.end(), [](double price) { return price == 0; }))
    entry.fail(price_names[0], "is 0 as all the others are; one of them must be above 0");
  return read;
}

}  // namespace

std::string form_of(const Operation& operation) {
  return std::visit([](const auto& op) { return form(op); }, operation);
}

Work work_of(const Operation& operation) {
  const Cost cost = cost_of(operation);
  return std::visit(
      [&](const auto& op) -> Work {
        if constexpr (requires { op.pairs(); }) {
          const double scores = static_cast<double>(op.batch()) * op.pairs() *
                                static_cast<double>(size_of(op.q.type));
          return {cost.bytes, {1, cost.flops, cost.bytes, scores, 0}};
        } else if constexpr (requires { op.forward; }) {
          return {cost.bytes, {1, cost.flops, cost.bytes, work_of(op.forward).product[3], 0}};
        }
        const Gemm* gemm = nullptr;
        if constexpr (requires { op.gemm; }) gemm = &op.gemm;
        if constexpr (std::is_same_v<std::decay_t<decltype(op)>, Gemm>) gemm = &op;
        if (gemm == nullptr) return {cost.bytes, {1, cost.flops, cost.bytes, 0, 0}};
        const double a = detail::bytes_of(gemm->a), b = detail::bytes_of(gemm->b);
        return {cost.bytes, {1, cost.flops, a, b, cost.bytes - a - b}};
      },
      operation);
}

double MeasuredForm::seconds(const Work& work) const {
  if (points.empty())
    return std::inner_product(prices.begin(), prices.end(), work.product.begin(), 0.0);
  const auto next = std::find_if(points.begin(), points.end(),
                                 [&](const Point& p) { return p.bytes > work.bytes; });
  if (next == points.begin()) return points.front().seconds;
  const Point& from = *(next - 1);
  if (next == points.end()) return from.seconds * work.bytes / from.bytes;
  const double along = std::log(work.bytes / from.bytes) / std::log(next->bytes / from.bytes);
  return from.seconds * std::pow(next->seconds / from.seconds, along);
}

MeasuredOperations read_operations(const JsonObject& forms) {
  MeasuredOperations read;
  for (const std::string& name : forms.keys()) {
    const JsonObject entry = forms.object(name);
    read[name] = entry.has("points") ? read_points(entry) : read_prices(entry);
  }
  return read;
}

nlohmann::json to_json(const MeasuredOperations& operations) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, form] : operations) {
    nlohmann::json& entry = all[name];
    if (form.points.empty())
      for (size_t i = 0; i < Work::terms; ++i) entry[price_names[i]] = form.prices[i];
    for (const MeasuredForm::Point& point : form.points)
      entry["points"].push_back({point.bytes, point.seconds});
  }
  return all;
}

}  // namespace frugal::kernels
