#include "kernels/support/utf8.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace frugal::kernels {
namespace {

/// Whether nlohmann_json would write it.
bool can_be_written(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

TEST(Utf8, IsWhatJsonCanHave) {
  // Bytes at which what is allowed changes, in all orders of up to four.
  const std::string edges = "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5";
  std::mt19937 random(1);
  int allowed = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string text(1 + random() % 4, ' ');
    for (char& c : text) c = edges[random() % edges.size()];
    const bool good = can_be_written(text);
    ASSERT_EQ(!first_not_utf8(text), good) << ::testing::PrintToString(text);
    allowed += good ? 1 : 0;
  }
  EXPECT_GT(allowed, 1000);
}

TEST(Utf8, SaysWhereItEnds) {
  EXPECT_EQ(first_not_utf8("Hodges–Lehmann"), std::nullopt);
  EXPECT_EQ(first_not_utf8("caf\xe9 au lait"), 3);
  EXPECT_EQ(first_not_utf8("abc\xe2\x80"), 3);
}

}  // namespace
}  // namespace frugal::kernels
