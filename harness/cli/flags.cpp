#include "harness/cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "harness/cell.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal {
namespace {

/// The whole text as a number, or false.
template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

[[noreturn]] void reject(const std::string& name, const std::string& value,
                         const std::string& allowed) {
  throw InputError(fmt::format("{} is \"{}\"; it must be {}", name, value, allowed));
}

}  // namespace

void Flags::add(const std::string& name, const std::string& value, const std::string& otherwise,
                const std::string& help, const std::function<void(const std::string&)>& set) {
  CLI::Option* option = command_.add_option_function<std::string>(name, set, help);
  option->type_name(value);
  if (!otherwise.empty()) option->default_str(otherwise);
}

void Flags::toggle(const std::string& name, bool& target, const std::string& help) {
  command_.add_flag(name, target, help);
}

void Flags::text(const std::string& name, std::string& target, const std::string& value,
                 const std::string& help) {
  add(name, value, target, help, [&target, name](const std::string& text) {
    if (text.empty()) reject(name, text, "a text that is not empty");
    target = text;
  });
}

void Flags::choice(const std::string& name, std::string& target,
                   const std::vector<std::string>& allowed, const std::string& help) {
  add(name, fmt::format("{}", fmt::join(allowed, "|")), target, help,
      [&target, name, allowed](const std::string& text) {
        if (std::find(allowed.begin(), allowed.end(), text) == allowed.end())
          reject(name, text, fmt::format("one of {}", fmt::join(allowed, ", ")));
        target = text;
      });
}

void Flags::whole(const std::string& name, const std::function<void(int64_t)>& set,
                  const std::string& otherwise, int64_t low, int64_t high,
                  const std::string& help) {
  add(name, "N", otherwise, help, [set, name, low, high](const std::string& text) {
    int64_t value = 0;
    if (!parse(text, value) || value < low || value > high)
      reject(name, text, fmt::format("a whole number from {} to {}", low, high));
    set(value);
  });
}

void Flags::real(const std::string& name, const std::function<void(double)>& set,
                 const std::string& otherwise, double low, double high, const std::string& help) {
  add(name, "X", otherwise, help, [set, name, low, high](const std::string& s) {
    double value = 0;
    if (!parse(s, value) || !(value >= low && value < high))
      reject(name, s, fmt::format("a number that is at least {} and below {}", low, high));
    set(value);
  });
}

void Flags::number(const std::string& name, double& target, double low, double high,
                   const std::string& help) {
  real(
      name, [&target](double value) { target = value; }, fmt::format("{}", target), low, high,
      help);
}

void Flags::number(const std::string& name, std::optional<double>& target, double low, double high,
                   const std::string& help) {
  real(
      name, [&target](double value) { target = value; }, "", low, high, help);
}

void Flags::bytes(const std::string& name, std::optional<int64_t>& target,
                  const std::string& help) {
  add(name, "BYTES", "", help, [&target, name](const std::string& text) {
    constexpr std::array<std::string_view, 5> units = {"", "KiB", "MiB", "GiB", "TiB"};
    const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const auto unit = std::find(units.begin(), units.end(), text.substr(digits));
    double number = 0;
    const bool known = unit != units.end() && parse(text.substr(0, digits), number);
    const double size = std::ldexp(number, 10 * static_cast<int>(unit - units.begin()));
    if (!known || size < 1 || size >= 0x1p62 ||
        (unit == units.begin() && number != std::floor(number)))
      reject(name, text, "bytes from 1 to 2^62, such as 2147483648, 2GiB or 512MiB");
    target = static_cast<int64_t>(size);
  });
}

void Flags::scale(const std::string& name, int64_t& target, const std::string& help) {
  add(name, "1/K", target == 0 ? "" : scale_name(target), help,
      [&target, name](const std::string& text) {
        const auto scale = parse_scale(text);
        if (!scale) reject(name, text, "1 or 1/k, such as 1/4");
        target = *scale;
      });
}

void Flags::positional(const std::string& name, std::vector<std::string>& target,
                       const std::string& help, bool required) {
  command_.add_option(name, target, help)->type_name("")->required(required);
}

void Flags::positional(const std::string& name, std::string& target, const std::string& help) {
  command_.add_option(name, target, help)->type_name("")->required();
}

}  // namespace frugal
