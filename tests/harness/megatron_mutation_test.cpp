#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/support/error.h"
#include "tests/harness/megatron.h"

// Lists of Megatron-LM's arguments with one mistake in them.
namespace frugal::harness {
namespace {

using Words = std::vector<std::string>;

struct Written {
  std::string name;
  Words values;

  std::string text() const {
    return values.empty() ? name : fmt::format("{} {}", name, fmt::join(values, " "));
  }
};
using List = std::vector<Written>;

std::string text_of(const List& list) {
  std::string text;
  for (const Written& one : list) text += one.text() + "\n";
  return text;
}

/// Lists with many kinds of arguments: switches, numbers, words, and what several say together.
const std::vector<List>& lists() {
  static const List common = {{"--num-layers", {"16"}},         {"--hidden-size", {"64"}},
                              {"--num-attention-heads", {"8"}}, {"--seq-length", {"32"}},
                              {"--micro-batch-size", {"2"}},    {"--global-batch-size", {"64"}},
                              {"--vocab-size", {"1000"}},       {"--bf16", {}},
                              {"--save", {"folder"}},           {"--hidden-dropout", {"0"}},
                              {"--attention-dropout", {"0"}}};
  static const std::vector<List> all = [] {
    List dense = common, divided = common;
    for (const Written& one : List{{"--swiglu", {}},
                                   {"--normalization", {"RMSNorm"}},
                                   {"--group-query-attention", {}},
                                   {"--num-query-groups", {"4"}},
                                   {"--untie-embeddings-and-output-weights", {}},
                                   {"--position-embedding-type", {"rope"}},
                                   {"--rotary-base", {"500000"}},
                                   {"--disable-bias-linear", {}},
                                   {"--ffn-hidden-size", {"128"}},
                                   {"--recompute-granularity", {"full"}},
                                   {"--recompute-method", {"uniform"}},
                                   {"--recompute-num-layers", {"2"}}})
      dense.push_back(one);
    for (const Written& one : List{{"--tensor-model-parallel-size", {"2"}},
                                   {"--sequence-parallel", {}},
                                   {"--pipeline-model-parallel-size", {"4"}},
                                   {"--num-layers-per-virtual-pipeline-stage", {"2"}},
                                   {"--use-distributed-optimizer", {}},
                                   {"--num-distributed-optimizer-instances", {"2"}},
                                   {"--cross-entropy-loss-fusion", {}},
                                   {"--attention-backend", {"unfused"}}})
      divided.push_back(one);
    return std::vector<List>{dense, divided};
  }();
  return all;
}

/// One mistake in a list.
class Mistake {
 public:
  Mistake(List list, uint64_t seed) : list(std::move(list)), random_(seed) {
    at = below(this->list.size());
    constexpr void (Mistake::*kinds[])() = {
        &Mistake::misspell,  &Mistake::change_case,  &Mistake::drop_dash,   &Mistake::underline,
        &Mistake::say_twice, &Mistake::change_value, &Mistake::shout_value, &Mistake::long_dash};
    kind = below(std::size(kinds));
    (this->*kinds[kind])();
  }
  List list;
  size_t at, kind = 0;

 private:
  size_t below(size_t count) { return random_() % count; }
  std::string& name() { return list[at].name; }
  void misspell() {
    const size_t letter = 2 + below(name().size() - 2);
    if (below(2) == 0)
      name().erase(letter, 1);
    else
      name().insert(letter, 1, static_cast<char>('a' + below(26)));
  }
  void change_case() {
    char& letter = name()[2 + below(name().size() - 2)];
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  void drop_dash() { name().erase(0, 1); }
  void underline() { std::replace(name().begin() + 2, name().end(), '-', '_'); }
  void long_dash() { name().replace(0, 2, "\u2014"); }
  void say_twice() {
    list.push_back(list[at]);
    at = list.size() - 1;
    change_value();
  }
  void change_value() {
    if (list[at].values.empty()) {
      list[at].values = {below(2) == 0 ? "false" : "2"};
      return;
    }
    std::string& value = list[at].values.front();
    const Words others = {"1", "3", "8", "0", "-1", "1e3", "x", value + "0", value + "x"};
    value = others[below(others.size())];
  }
  void shout_value() {
    for (std::string& value : list[at].values)
      for (char& c : value) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  std::mt19937_64 random_;
};

/// Fields that differ.
Words different_keys(const nlohmann::json& a, const nlohmann::json& b) {
  Words keys;
  for (const auto* one : {&a, &b})
    for (const auto& [key, value] : one->items())
      if (!a.contains(key) || !b.contains(key) || a.at(key) != b.at(key)) keys.push_back(key);
  return keys;
}

TEST(MegatronMistakes, NeverChangeTheModelInSilence) {
  int refused = 0, unknown = 0, unchanged = 0, changed = 0;
  std::vector<Imported> all_right;
  for (const List& list : lists()) {
    all_right.push_back(imported(text_of(list), of_ranks(16)));
    ASSERT_TRUE(all_right.back().unknown.empty());
  }
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    const size_t which = seed % lists().size();
    const List& list = lists()[which];
    const Imported& right = all_right[which];
    const Mistake mistake(list, seed);
    const std::string wrong = mistake.list[mistake.at].text();
    SCOPED_TRACE(fmt::format("seed {}, kind {}: {}", seed, mistake.kind, wrong));
    Imported read;
    try {
      read = imported(text_of(mistake.list), of_ranks(16));
    } catch (const InputError&) {
      ++refused;
      continue;
    }
    if (!read.unknown.empty()) {  // ends with status 2
      ++unknown;
      EXPECT_TRUE(has(read.unknown, mistake.list[mistake.at].name));
      continue;
    }
    const Words keys = different_keys(right.given, read.given);
    ++(keys.empty() ? unchanged : changed);
    // A name that is not what it was is not known, and a value without case is the same.
    EXPECT_TRUE(mistake.kind >= 4 || keys.empty());
    EXPECT_TRUE(mistake.kind != 6 || keys.empty());
    for (const std::string& key : keys) {
      const auto says = [&](const Imported::Part& part) {
        return part.what.starts_with(key + "=") || part.said.starts_with(key + "=");
      };
      const bool gone = !read.given.contains(key);  // by a switch that is off
      EXPECT_TRUE(gone || std::any_of(read.mapped.begin(), read.mapped.end(), says) ||
                  std::any_of(read.assumed.begin(), read.assumed.end(), says))
          << key;
    }
    bool listed = false;
    for (const auto* parts : {&read.mapped, &read.missing, &read.same})
      for (const Imported::Part& part : *parts)
        listed = listed || (part.said + " ").find(wrong + " ") != std::string::npos;
    EXPECT_TRUE(listed) << "what is wrong is listed with its value";
  }
  EXPECT_GT(refused, 150);
  EXPECT_GT(unknown, 450);
  EXPECT_GT(unchanged, 50);
  EXPECT_GT(changed, 50);
}

}  // namespace
}  // namespace frugal::harness
