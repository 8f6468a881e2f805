#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
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

}  // namespace
}  // namespace frugal::testing
