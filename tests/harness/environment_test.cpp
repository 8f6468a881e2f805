#include "harness/place/environment.h"

#include <gmock/gmock.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <regex>

#include "harness/measure/flops.h"
#include "harness/report/document/base64.h"
#include "harness/settings/models.h"
#include "kernels/support/error.h"
#include "kernels/support/version.h"
#include "tests/harness/support.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/source_dir.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(Environment, NamesNoHostUserOrPath) {
  const std::string text = environment().dump();
  utsname system = {};
  uname(&system);
  EXPECT_THAT(text, Not(HasSubstr(std::string("\"") + system.nodename + "\"")));
  EXPECT_THAT(text, Not(HasSubstr(testing::source_dir())));
  EXPECT_THAT(text, Not(HasSubstr("/home")));
  EXPECT_EQ(environment()["processor"]["usable_processors"], usable_processors());
}

TEST(Environment, OfTheCpuSaysWhichKernelsRan) {
  EXPECT_FALSE(environment().contains("kernels"));
  EXPECT_FALSE(environment(DeviceKind::simulated).contains("kernels"));
  const CpuLevel baseline("baseline");
  EXPECT_EQ(environment(DeviceKind::cpu)["kernels"], "baseline");
}

TEST(LibraryVersion, IsDotted) {
  EXPECT_EQ(library_version(130002), "13.0.2");
  EXPECT_EQ(library_version(91002), "9.10.2");
  EXPECT_EQ(library_version(22703), "2.27.3");
  EXPECT_EQ(library_version(8905), "8.9.5");
}

TEST(UtcNow, IsIso8601) {
  EXPECT_TRUE(
      std::regex_match(utc_now(), std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
}

TEST(FindModel, KnowsThePapersModelsAndFiles) {
  EXPECT_EQ(find_model("1T").heads, 160);
  EXPECT_THAT([] { find_model("22b"); }, ThrowsMessage<InputError>(HasSubstr("22B")));
  const testing::Folder folder;
  const auto write = [&](const std::string& text) {
    std::ofstream(folder / "own.json") << text;
    return folder / "own.json";
  };
  const std::string good =
      R"("layers": 1, "hidden_size": 8, "attention_heads": 2, "sequence_length": 4, "vocabulary_size": 9)";
  EXPECT_EQ(find_model(write("{" + good + "}")).vocabulary, 9);
  EXPECT_EQ(find_model(folder / "own.json").name, "own");
  EXPECT_EQ(find_model(folder / "own.json").objective, Objective::next_token);
  EXPECT_EQ(find_model(write("{" + good + R"(, "objective": "masked-token"})")).objective,
            Objective::masked_token);
  for (const char* extra : {R"(, "dropout": 2})", R"(, "layer": 2})", R"(, "layers": 0})",
                            R"(, "objective": "tokens"})"})
    EXPECT_THROW(find_model(write("{" + good + extra)), InputError) << extra;
}

TEST(Base64, IsRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(std::string_view("\xff\x00\xfe", 3)), "/wD+");
}

}  // namespace
}  // namespace frugal::harness
