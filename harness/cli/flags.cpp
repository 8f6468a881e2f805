#include "harness/cli/flags.h"

#include <CLI/CLI.hpp>

#include "harness/record/cell.h"

namespace frugal::harness {

std::string Flags::command() const { return command_.get_name(); }

void Flags::value(const std::string& name, const ValueType& type, const std::string& otherwise,
                  const std::string& help, const std::function<void(const std::string&)>& set) {
  CLI::Option* option = command_.add_option_function<std::string>(name, set, help);
  option->type_name(type.placeholder);
  if (!otherwise.empty()) option->default_str(otherwise);
}

void Flags::toggle(const std::string& name, bool& target, const std::string& help) {
  command_.add_flag(name, target, help);
}

void Flags::toggle(const std::string& name, const std::function<void()>& set,
                   const std::string& help) {
  command_.add_flag_callback(name, set, help);
}

void Flags::text(const std::string& name, std::string& target, const std::string& value,
                 const std::string& help) {
  const ValueType type = any_text(value);
  this->value(name, type, target, help,
              [&target, name, type](const std::string& text) { target = type.value(name, text); });
}

void Flags::texts(const std::string& name, std::vector<std::string>& target,
                  const std::string& value, const std::string& help) {
  command_.add_option(name, target, help)->type_name(value)->allow_extra_args(false);
}

void Flags::choice(const std::string& name, std::string& target,
                   const std::vector<std::string>& allowed, const std::string& help) {
  const ValueType type = one_of(allowed);
  value(name, type, target, help,
        [&target, name, type](const std::string& text) { target = type.value(name, text); });
}

void Flags::list(const std::string& name, const ValueType& type, std::vector<std::string>& target,
                 const std::string& help) {
  value(name, type, "", help, [&target, name, type](const std::string& text) {
    target.clear();
    for (const nlohmann::json& each : type.values(name, text)) target.push_back(each);
  });
}

void Flags::whole(const std::string& name, const std::function<void(int64_t)>& set,
                  const std::string& otherwise, int64_t low, int64_t high,
                  const std::string& help) {
  const ValueType type = whole_number(low, high);
  value(name, type, otherwise, help,
        [set, name, type](const std::string& text) { set(type.value(name, text)); });
}

void Flags::real(const std::string& name, const std::function<void(double)>& set,
                 const std::string& otherwise, double low, double high, const std::string& help) {
  const ValueType type = real_number(low, high);
  value(name, type, otherwise, help,
        [set, name, type](const std::string& text) { set(type.value(name, text)); });
}

void Flags::number(const std::string& name, double& target, double low, double high,
                   const std::string& help) {
  real(
      name, [&target](double value) { target = value; }, real_number(low, high).text(target), low,
      high, help);
}

void Flags::number(const std::string& name, std::optional<double>& target, double low, double high,
                   const std::string& help) {
  real(
      name, [&target](double value) { target = value; }, "", low, high, help);
}

void Flags::bytes(const std::string& name, std::optional<int64_t>& target,
                  const std::string& help) {
  const ValueType type = byte_count();
  value(name, type, "", help, [&target, name, type](const std::string& text) {
    target = type.value(name, text).get<int64_t>();
  });
}

void Flags::scale(const std::string& name, int64_t& target, const std::string& help) {
  const ValueType type = own_text(scale_text());
  value(name, type, target == 0 ? "" : scale_name(target), help,
        [&target, name, type](const std::string& text) {
          target = *parse_scale(type.value(name, text).get<std::string>());
        });
}

void Flags::positional(const std::string& name, std::vector<std::string>& target,
                       const std::string& help, bool required) {
  command_.add_option(name, target, help)->type_name("")->required(required);
}

void Flags::positional(const std::string& name, std::string& target, const std::string& help) {
  command_.add_option(name, target, help)->type_name("")->required();
}

}  // namespace frugal::harness
