#include "harness/compare/turns.h"

#include <gmock/gmock.h>

#include <map>

#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Turns, RunARecordsCommandWithAnotherProgram) {
  const RunAgain side{"my out", "/opt/my frugal/frugal", {}};
  EXPECT_EQ(shell_command("FRUGAL_TF32=1 mpirun -n 2 frugal measure --model frugal", side),
            "FRUGAL_TF32=1 mpirun -n 2 '/opt/my frugal/frugal' measure --model frugal --out 'my "
            "out' --rerun all 2>&1 >/dev/null");
  EXPECT_EQ(
      shell_command("frugal rerun records.jsonl#22B", side),
      "'/opt/my frugal/frugal' rerun 'my out/'records.jsonl#22B --out 'my out' 2>&1 >/dev/null");
  EXPECT_THAT([&] { shell_command("frugal_micro --all", side); },
              ThrowsMessage<InputError>(HasSubstr("does not run frugal")));
}

/// A program that notes in a file which folder it was run for.
std::string noting_program(const Folder& folder) {
  const std::string path = folder / "noting";
  std::ofstream(path) << "#!/bin/sh\necho \"$*\" >> " << folder / "noted"
                      << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(Turns, RunEverySideOnceInEachAndInAnOrderThatIsDrawn) {
  const Folder folder;
  const std::string program = noting_program(folder);
  const std::vector<RunAgain> sides = {{"A", program, {"frugal x"}}, {"B", program, {"frugal x"}}};
  Progress silent;
  run_by_turns(sides, 32, 7, silent);
  std::ifstream noted(folder / "noted");
  int a_first = 0;
  for (int turn = 0; turn < 32; ++turn) {
    std::string first, second;
    std::getline(noted, first);
    std::getline(noted, second);
    EXPECT_NE(first, second);
    a_first += first == "x --out A --rerun all" ? 1 : 0;
  }
  EXPECT_GT(a_first, 6);  // of 32 tosses: all but one seed of 5000
  EXPECT_LT(a_first, 26);
}

TEST(Turns, RunACommandOfBothSidesOneAfterTheOther) {
  const Folder folder;
  const std::string program = noting_program(folder);
  const std::vector<std::string> commands = {"frugal x", "frugal y", "frugal z"};
  Progress silent;
  run_by_turns({{"A", program, commands}, {"B", program, commands}}, 8, 7, silent);
  std::ifstream noted(folder / "noted");
  std::map<std::string, int> first_commands;
  std::string first, second;
  for (int pair = 0; std::getline(noted, first) && std::getline(noted, second); ++pair) {
    EXPECT_EQ(first.substr(0, 1), second.substr(0, 1));
    EXPECT_NE(first, second);
    if (pair % 3 == 0) ++first_commands[first.substr(0, 1)];
  }
  EXPECT_EQ(first_commands.size(), 3);  // the order of commands is drawn, too
}

TEST(Turns, SayWhatACommandSaidThatFailed) {
  const Folder folder;
  const std::string path = folder / "failing";
  std::ofstream(path) << "#!/bin/sh\necho first >&2\necho no peer >&2\nexit 5\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  Progress silent;
  EXPECT_THAT(
      [&] {
        run_by_turns({{"A", path, {"frugal x"}}}, 1, 1, silent);
      },
      ThrowsMessage<InputError>(HasSubstr("`frugal x` ended with status 5 for A: no peer")));
}

TEST(Turns, GoOnWhereMemoryRanOutWhichARecordSays) {
  const Folder folder;
  const std::string path = folder / "large";
  std::ofstream(path) << "#!/bin/sh\nexit 3\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  Progress silent;
  EXPECT_NO_THROW(run_by_turns({{"A", path, {"frugal x"}}}, 2, 1, silent));
}

}  // namespace
}  // namespace frugal::harness
