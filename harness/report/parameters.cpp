#include "harness/report/parameters.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "engine/train/stored/serial_parameters.h"

namespace frugal::harness {
namespace {

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t behind = 3; behind < text.size(); behind += 4) text.insert(text.size() - behind, ",");
  return text;
}

}  // namespace

Quantity parameters_of(const ModelConfig& model) {
  const int64_t count = parameter_count(model);
  for (const auto& [size, name] :
       std::array{std::pair{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}})
    if (static_cast<double>(count) >= size)
      return {format_number(static_cast<double>(count) / size) + " " + name, with_commas(count)};
  return {with_commas(count), ""};
}

std::string parameters_line(const ModelConfig& model) {
  const Quantity count = parameters_of(model);
  return fmt::format("{}: {} parameters{}\n", model.name.empty() ? "model" : model.name,
                     count.value, count.unit.empty() ? "" : fmt::format(" ({})", count.unit));
}

}  // namespace frugal::harness
