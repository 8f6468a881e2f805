#include "engine/options/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/support/error.h"

namespace frugal::engine {

std::string Described::range() const {
  if (const auto* number = std::get_if<allowed::Number>(&allowed)) {
    const bool apart = number->low == 0 && !number->meaning.empty();
    return fmt::format("it must be from {} to {}{}", apart ? 1 : number->low, number->high,
                       apart ? ", or 0 for " + number->meaning : "");
  }
  if (const auto* one = std::get_if<allowed::OneOf>(&allowed))
    return fmt::format("it must be one of {}", fmt::join(one->names, ", "));
  const auto& real = std::get<allowed::Real>(allowed);
  return fmt::format("it must be at least {} and below {}", real.low, real.high);
}

std::string text_of(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::monostate>)
          return "";
        else
          return fmt::format("{}", held);
      },
      value);
}

void refuse_range(const Described& field, const FieldValue& value) {
  throw InputError(fmt::format("{} is {}; {}", field.key, text_of(value), field.range()));
}

void refuse_needed(const Described& field, const FieldValue& value) {
  throw InputError(fmt::format("{} is {}, which needs {}; set that, or drop {}", field.key,
                               text_of(value), field.needed, field.key));
}

}  // namespace frugal::engine
