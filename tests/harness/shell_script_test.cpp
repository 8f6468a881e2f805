#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/import/shell.h"
#include "harness/import/shell_condition.h"
#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The words of the last command.
std::vector<std::string> last_words(const std::string& text,
                                    const std::map<std::string, std::string>& given = {}) {
  const ShellScript script(text, "a.sh", given);
  return script.commands().empty() ? std::vector<std::string>{} : script.commands().back().words;
}

TEST(ShellScript, ReplacesVariables) {
  EXPECT_THAT(last_words("A=1\nB=\"2 3\"\nrun $A ${B} \"$B\" '$B' \\$B x$A\"y\"\n"),
              ElementsAre("run", "1", "2", "3", "2 3", "$B", "$B", "x1y"));
  EXPECT_THAT(last_words("run ${A:-4} ${B-5} ${C:=6}\n", {{"B", ""}}),
              ElementsAre("run", "4", "6"));
  EXPECT_THAT(last_words("A=1\nrun $A\n", {{"A", "7"}}), ElementsAre("run", "7"));
  EXPECT_THAT(last_words("A=1; A+=2\nrun $A $1\n"), ElementsAre("run", "12", "${1}"));
  EXPECT_THAT(last_words("export A=1 B=2 # three\nrun $A$B#4\n"), ElementsAre("run", "12#4"));
}

TEST(ShellScript, HasArrays) {
  const std::string text =
      "A=(\n  --one 1 # first\n  \"--two 2\"\n)\nA+=(--three)\n"
      "run ${A[@]} \"${A[@]}\" \"x ${A[*]}\"\n";
  EXPECT_THAT(last_words(text),
              ElementsAre("run", "--one", "1", "--two", "2", "--three", "--one", "1", "--two 2",
                          "--three", "x --one 1 --two 2 --three"));
}

TEST(ShellScript, Calculates) {
  EXPECT_THAT(last_words("A=3\nrun $((A*4+2)) $(( ($A - 1) / 2 % 2 )) $((-A))\n"),
              ElementsAre("run", "14", "1", "-3"));
  for (const char* unknown :
       {"B*2", "1/0", "A**2", "9223372036854775807", "99999999999999999*99999999"})
    EXPECT_THAT(last_words(std::string("A=3\nrun $((") + unknown + "))\n"),
                ElementsAre("run", "$(...)"))
        << unknown;
}

TEST(ShellScript, FollowsConditions) {
  const std::string text =
      "if [ \"$M\" == \"a\" ]; then\n  X=1\nelif [[ -z $M || $M != b ]]; then X=2\nelse\n  "
      "X=3\nfi\nrun $X\n";
  EXPECT_THAT(last_words(text, {{"M", "a"}}), ElementsAre("run", "1"));
  EXPECT_THAT(last_words(text, {{"M", "b"}}), ElementsAre("run", "3"));
  EXPECT_THAT(last_words(text), ElementsAre("run", "2"));
  EXPECT_THAT(last_words("if [ $N -gt 3 ] && [ ! -n \"$Q\" ]; then run yes; fi\n", {{"N", "4"}}),
              ElementsAre("run", "yes"));
}

TEST(ShellScript, SaysWhatItDoesNotFollow) {
  const ShellScript script(
      "if [ -f x ]; then A=1; fi\nif [ -f x ]; then echo no; fi\nfor i in 1 2; do B=$i; done\n"
      "f() { C=1\n}\ncase $X in a) D=1;; esac\nrun $A\n",
      "a.sh", {});
  ASSERT_EQ(script.left_out().size(), 4);
  EXPECT_THAT(script.left_out()[0], HasSubstr("line 1"));
  EXPECT_THAT(script.left_out()[1], HasSubstr("line 3: a loop"));
  EXPECT_THAT(script.left_out()[2], HasSubstr("the function f"));
  EXPECT_THAT(script.left_out()[3], HasSubstr("line 6: a case"));
  EXPECT_THAT(script.commands().back().words, ElementsAre("run"));  // its condition is false
}

TEST(ShellScript, FollowsChains) {
  const std::string text =
      "[ \"$M\" = a ] && A=1 || A=2\n[[ $M == a && -n $M ]] || B=3\n"
      "! [ $M = a ] && (C=4; D=5) && E=6\n[ $M = b ] && { F=7; }\n"
      "cd x && G=8 || G=9\ntest $M = b &&\n  H=10\nrun $A $B $C $D $E $F $G $H\n";
  EXPECT_THAT(last_words(text, {{"M", "a"}}), ElementsAre("run", "1", "8"));
  EXPECT_THAT(last_words(text, {{"M", "b"}}),
              ElementsAre("run", "2", "3", "4", "5", "6", "7", "8", "10"));
  const ShellScript unknown("[ -f x ] && A=1\n[ -f x ] || B=2\n[ -f x ] && echo\nrun $A $B\n",
                            "a.sh", {});
  EXPECT_THAT(unknown.commands().back().words, ElementsAre("run", "2"));
  ASSERT_EQ(unknown.left_out().size(), 2);
  EXPECT_THAT(unknown.left_out()[1], HasSubstr("line 2: "));
}

TEST(ShellScript, HasRedirectionsBehindEmptyWords) {
  EXPECT_THAT(last_words("run \"\"> log 2> more\n"), ElementsAre("run", ""));
}

TEST(ShellScript, ReadsCommandsWithinCommands) {
  EXPECT_THAT(last_words("A='--x 1'\nsrun -n 2 bash -c \"run $A\" > log 2>&1 | tee log\n"),
              ElementsAre("tee", "log"));
  const ShellScript script("A='--x 1'\nsrun bash -c 'run $A' 2>&1\neval \"go $A\"\n", "a.sh", {});
  ASSERT_EQ(script.commands().size(), 2);
  EXPECT_THAT(script.commands()[0].words, ElementsAre("run", "--x", "1"));
  EXPECT_THAT(script.commands()[1].words, ElementsAre("go", "--x", "1"));
}

TEST(ShellScript, LeavesOutTextsForOthers) {
  EXPECT_THAT(last_words("cat <<EOT > file\n--no 1 'unquoted\nEOT\nrun <<<x `date` $(hostname)\n"),
              ElementsAre("run", "$(...)", "$(...)"));
  EXPECT_THAT(last_words("# only\n\n"), IsEmpty());
}

TEST(ShellScript, KnowsSlurmsNodes) {
  EXPECT_THAT(last_words("#!/bin/bash\n#SBATCH --nodes=24   # all\nrun $SLURM_NNODES\n"),
              ElementsAre("run", "24"));
}

TEST(ShellScript, SaysWhereItDoesNotEnd) {
  for (const auto& [text, line] : {std::pair{"run\nA=\"1\n2\n", "line 2"},
                                   {"A=(1\n2", "line 1"},
                                   {"if [ a ]; then\nrun\n", "line 1"},
                                   {"\nfor i in x; do run\n", "line 2"},
                                   {"run `date\n", "line 1"}})
    EXPECT_THAT(message_of<InputError>([&, text = text] { (void)last_words(text); }),
                ::testing::AllOf(HasSubstr("a.sh"), HasSubstr(line)))
        << text;
}

}  // namespace
}  // namespace frugal::harness
