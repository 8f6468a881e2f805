#include "harness/record/line_file.h"

#include <gmock/gmock.h>

#include <fstream>

#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LineFile, GoesOnWhereAKilledProgramLeftOff) {
  const testing::Folder folder;
  for (const char* left : {"", "cut", "whole\n", "whole\ncut"}) {
    const std::string path = folder / "new/lines";
    std::filesystem::create_directories(folder / "new");
    std::ofstream(path) << left;
    const std::string kept = std::string(left).starts_with("whole") ? "whole\n" : "";
    LineFile file("--json", path);
    file.drop_cut_line();
    EXPECT_EQ(testing::read(path), kept);
    file.append("one");
    EXPECT_EQ(testing::read(path), kept + "one\n");  // while it is open
    file.append("two");
    EXPECT_EQ(testing::read(path), kept + "one\ntwo\n");
  }
}

TEST(LineFile, SaysWhichFlagNamedWhatCannotBeWritten) {
  const testing::Folder folder;
  std::ofstream(folder / "file") << "";
  EXPECT_THAT([&] { LineFile("--json", folder / "file/lines"); },
              ThrowsMessage<InputError>(HasSubstr("--json: ")));
  const LineFile first("--json", folder / "lines");
  EXPECT_THAT([&] { LineFile("--json", folder / "lines"); },
              ThrowsMessage<InputError>(HasSubstr("another run")));
}

}  // namespace
}  // namespace frugal::harness
