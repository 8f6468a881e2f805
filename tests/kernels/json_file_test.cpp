#include "kernels/support/json_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::kernels {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  return message_of<InputError>([&] { (void)parse_json(text, "a file"); });
}

std::string nested(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(JsonFiles, WhatIsNestedTooDeeplyIsRefusedBeforeAnythingFollowsItDown) {
  EXPECT_EQ(error_of(nested(100)), "nothing was thrown");
  EXPECT_THAT(error_of(nested(101)), HasSubstr("a file: is nested deeper than 100 levels"));
  EXPECT_THAT(error_of("{\"a\": " + nested(1 << 20) + "}"), HasSubstr("is nested deeper than"));
}

TEST(JsonFiles, ListsAreOfOneType) {
  const auto json = parse_json(R"({"a": [1, 2.5], "b": [1, 2], "c": [true]})", "a file");
  const JsonObject object(json, "a file");
  EXPECT_EQ(object.require<std::vector<double>>("a"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(object.require<std::vector<int64_t>>("b"), (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(message_of<InputError>([&] { (void)object.require<std::vector<int64_t>>("a"); }),
              HasSubstr("a file: a is [1,2.5] (array); it must be a list of whole numbers"));
  EXPECT_THAT(message_of<InputError>([&] { (void)object.require<std::vector<double>>("c"); }),
              HasSubstr("it must be a list of numbers"));
}

TEST(InputErrors, AreOneLineWhateverTheyQuote) {
  EXPECT_EQ(InputError("a\nb\x1b[31m\x7f\tü").what(), std::string("a?b?[31m??ü"));
}

}  // namespace
}  // namespace frugal::kernels
