#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::testing {
namespace {

using nlohmann::json;

/// At the edges of what numbers and texts can be.
const std::vector<json>& edges() {
  static const std::vector<json> all = {nullptr,
                                        true,
                                        false,
                                        0,
                                        1,
                                        -1,
                                        2,
                                        0.5,
                                        -0.0,
                                        1e308,
                                        5e-324,
                                        1e-300,
                                        1 << 20,
                                        int64_t{1} << 31,
                                        int64_t{1} << 62,
                                        std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::min(),
                                        std::numeric_limits<uint64_t>::max(),
                                        "",
                                        "x",
                                        "1/3",
                                        "frugal",
                                        json::array(),
                                        json::object(),
                                        json::array({0}),
                                        json::object({{"x", 0}})};
  return all;
}

/// Every value, the whole first.
void list_values(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (json& inner : value) list_values(inner, all);
}

class Mutation {
 public:
  explicit Mutation(uint32_t seed) : random_(seed) {}

  void change(json& whole) {
    std::vector<json*> all;
    list_values(whole, all);
    json& value = *all[below(all.size())];
    switch (below(5)) {
      case 0:
        value = json(*all[below(all.size())]);
        break;
      case 1:
        if (value.is_number()) value = value.get<double>() * (below(2) == 0 ? 2 : -1);
        break;
      case 2:
        erase(value);
        break;
      case 3:
        add(value);
        break;
      default:
        value = edges()[below(edges().size())];
    }
  }

  size_t below(size_t end) { return random_() % end; }

 private:
  void erase(json& value) {
    if (value.is_structured() && !value.empty())
      value.erase(std::next(value.begin(), static_cast<std::ptrdiff_t>(below(value.size()))));
  }
  /// One of its own again, under another key.
  void add(json& value) {
    if (!value.is_structured() || value.empty()) return;
    const json inner = *std::next(value.begin(), static_cast<std::ptrdiff_t>(below(value.size())));
    if (value.is_array())
      value.push_back(inner);
    else
      value["x" + std::to_string(below(3))] = inner;
  }

  std::mt19937 random_;
};

std::optional<std::string> changed(std::string_view text, Mutation& mutation) {
  try {
    json whole = kernels::parse_json(text, "");
    mutation.change(whole);
    return whole.dump(-1, ' ', false, json::error_handler_t::replace);
  } catch (const kernels::InputError&) {
    return std::nullopt;
  }
}

/// Of a safetensors file: its header's length, the header, and what follows it.
std::optional<std::string> changed_header(std::string_view file, Mutation& mutation) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > file.size() - sizeof(length)) return std::nullopt;
  const auto header = changed(file.substr(sizeof(length), length), mutation);
  if (!header) return std::nullopt;
  const uint64_t other = header->size();
  return std::string(reinterpret_cast<const char*>(&other), sizeof(other)) + *header +
         std::string(file.substr(sizeof(length) + length));
}

}  // namespace

std::optional<std::string> with_other_json(std::string_view input, uint32_t seed) {
  Mutation mutation(seed);
  if (auto file = changed_header(input, mutation)) return file;
  if (auto whole = changed(input, mutation)) return whole;
  const auto lines = static_cast<size_t>(std::count(input.begin(), input.end(), '\n'));
  if (lines == 0) return std::nullopt;
  size_t begin = 0;
  for (size_t skipped = mutation.below(lines); skipped > 0; --skipped)
    begin = input.find('\n', begin) + 1;
  const size_t end = input.find('\n', begin);
  const auto line = changed(input.substr(begin, end - begin), mutation);
  if (!line) return std::nullopt;
  return std::string(input.substr(0, begin)) + *line + std::string(input.substr(end));
}

}  // namespace frugal::testing
