#include "engine/options/layer_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/options/rules.h"

namespace frugal::engine {
namespace {

std::optional<int64_t> count_in(std::string_view text, int64_t least) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && rest == end;
  return whole && value >= least && value <= rules::most_layers ? std::optional(value)
                                                                : std::nullopt;
}

}  // namespace

std::optional<std::vector<int64_t>> parse_layer_counts(std::string_view text) {
  std::vector<int64_t> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t star = word.find('*');
    const bool repeated = star != std::string_view::npos;
    const auto times = repeated ? count_in(word.substr(0, star), 1) : 1;
    const auto layers = count_in(repeated ? word.substr(star + 1) : word, 0);
    if (!times || !layers || *times + std::ssize(counts) > rules::most_layers) return std::nullopt;
    counts.insert(counts.end(), static_cast<size_t>(*times), *layers);
    begin = end + 1;
  }
  return counts;
}

std::string text_of_layer_counts(const std::vector<int64_t>& counts) {
  std::string text;
  for (auto begin = counts.begin(), end = begin; begin != counts.end(); begin = end) {
    end = std::find_if(begin, counts.end(), [&](int64_t layers) { return layers != *begin; });
    const auto times = end - begin;
    text += fmt::format("{}{}{}", text.empty() ? "" : "+",
                        times > 1 ? fmt::format("{}*", times) : "", *begin);
  }
  return text;
}

}  // namespace frugal::engine
