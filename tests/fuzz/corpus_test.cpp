#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <stdexcept>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"
#include "tests/support/source_dir.h"

namespace frugal::testing {

/// In the names of tests.
static void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }

namespace {

namespace fs = std::filesystem;

fs::path corpus() { return fs::path(source_dir()) / "tests/fuzz/corpus"; }

class Corpus : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(Corpus, IsReadOrRefusedAsItsNamesSay) {
  int read = 0;
  for (const auto& entry : fs::directory_iterator(corpus() / GetParam().name)) {
    const std::string name = entry.path().filename();
    SCOPED_TRACE(entry.path().string());
    bool accepted = false;
    ASSERT_NO_THROW(accepted = read_bytes(GetParam(), kernels::read_text(entry.path().string())));
    EXPECT_EQ(accepted, !name.starts_with("refused"));
    read += accepted ? 1 : 0;
  }
  EXPECT_GT(read, 0) << "what is only refused says nothing of what is read";
}

INSTANTIATE_TEST_SUITE_P(Of, Corpus, ::testing::ValuesIn(fuzz_targets()),
                         [](const auto& info) { return info.param.name; });

TEST(Corpora, AreEachATargets) {
  for (const auto& entry : fs::directory_iterator(corpus()))
    EXPECT_TRUE(std::any_of(
        fuzz_targets().begin(), fuzz_targets().end(),
        [&](const FuzzTarget& target) { return target.name == entry.path().filename(); }))
        << entry.path();
}

TEST(ReadBytes, SaysWhetherTheyWereRefusedAndThrowsWhatIsNoRefusal) {
  const auto target = [](std::function<void(const std::string&)> read) {
    return FuzzTarget{"any", "any.txt", std::move(read)};
  };
  EXPECT_TRUE(read_bytes(
      target([](const std::string& path) { EXPECT_EQ(kernels::read_text(path), "abc"); }), "abc"));
  EXPECT_FALSE(read_bytes(target([](const std::string&) { throw kernels::InputError("no"); }), ""));
  EXPECT_THROW(read_bytes(target([](const std::string&) { throw kernels::InputError(""); }), ""),
               std::logic_error);
  EXPECT_THROW(read_bytes(target([](const std::string&) { require_same(1, 2); }), ""),
               std::logic_error);
}

/// Of a value, of one line, and of a header, whose length is right again.
TEST(OtherJson, IsJsonAgain) {
  const std::string header = R"({"a":[1,2]})",
                    file = std::string("\x0b\0\0\0\0\0\0\0", 8) + header + "data";
  std::set<std::string> seen;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    seen.insert(kernels::parse_json(*with_other_json(header, seed), "").dump());
    const std::string lines = *with_other_json("{\"a\": 1}\n{\"a\": 1}\n", seed);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
    const std::string other = *with_other_json(file, seed);
    ASSERT_TRUE(other.ends_with("data"));
    const auto length = static_cast<size_t>(static_cast<unsigned char>(other[0]));
    EXPECT_EQ(other.size(), 8 + length + 4);
    EXPECT_NO_THROW(kernels::parse_json(other.substr(8, length), ""));
  }
  EXPECT_GT(seen.size(), 30U);
  EXPECT_EQ(with_other_json("no JSON", 0), std::nullopt);
}

}  // namespace
}  // namespace frugal::testing
