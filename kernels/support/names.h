#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace frugal::kernels {

/// Names of an enumeration's values, in their order, as JSON, command lines and messages have them.
/// A function beside the enumeration gives them:
///
///     constexpr Names names_of(ContextKind) { return {"ulysses", "ring", "zigzag"}; }
class Names {
 public:
  constexpr Names(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) names_.at(size_++) = name;
  }
  constexpr size_t size() const { return size_; }
  constexpr std::string_view at(size_t i) const { return i < size_ ? names_.at(i) : "?"; }
  constexpr auto begin() const { return names_.begin(); }
  constexpr auto end() const { return names_.begin() + size_; }
  std::vector<std::string> texts() const { return {begin(), end()}; }

 private:
  std::array<std::string_view, 10> names_{};
  size_t size_ = 0;
};

template <class E>
concept Enumeration = requires(E value) {
  { names_of(value) } -> std::same_as<Names>;
};

template <Enumeration E>
constexpr std::string_view name_of(E value) {
  return names_of(value).at(static_cast<size_t>(value));
}

/// The inverse; nothing for a name that is none of them.
template <Enumeration E>
constexpr std::optional<E> from_name(std::string_view name) {
  const Names names = names_of(E());
  for (size_t i = 0; i < names.size(); ++i)
    if (names.at(i) == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace frugal::kernels
