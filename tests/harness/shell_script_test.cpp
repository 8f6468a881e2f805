#include "harness/import/shell_script.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Words = std::vector<std::string>;
using Given = std::map<std::string, std::string>;

/// The words of the last command.
Words last_words(const std::string& text, const Given& given = {}) {
  const ShellScript script(text, "a.sh", given);
  return script.commands().empty() ? Words{} : script.commands().back().words;
}

TEST(ShellScript, ReplacesVariables) {
  EXPECT_THAT(last_words("A=1\nB=\"2 3\"\nrun $A ${B} \"$B\" '$B' \\$B x$A\"y\"\n"),
              ElementsAre("run", "1", "2", "3", "2 3", "$B", "$B", "x1y"));
  EXPECT_THAT(last_words("run ${A:-4} ${B-5} ${C:=6}\n", {{"B", ""}}),
              ElementsAre("run", "4", "6"));
  EXPECT_THAT(last_words("A=1\nrun $A\n", {{"A", "7"}}), ElementsAre("run", "7"));
  EXPECT_THAT(last_words("A=1; A+=2\nrun $A $1\n"), ElementsAre("run", "12", "${1}"));
  EXPECT_THAT(last_words("export A=1 B=2 # three\nrun $A$B#4\n"), ElementsAre("run", "12#4"));
  EXPECT_THAT(last_words("X=llama/7b.bin\nrun ${X/7b/8b} ${X##*/} ${X%.bin} ${#X} ${X^^}\n"),
              ElementsAre("run", "llama/8b.bin", "7b.bin", "llama/7b", "12", "LLAMA/7B.BIN"));
}

TEST(ShellScript, HasArrays) {
  EXPECT_THAT(last_words("A=(\n  --one 1 # first\n  \"--two 2\"\n)\nA+=(--three)\n"
                         "run ${A[@]} \"${A[@]}\" \"x ${A[*]}\" ${A[1]} ${#A[@]}\n"),
              ElementsAre("run", "--one", "1", "--two", "2", "--three", "--one", "1", "--two 2",
                          "--three", "x --one 1 --two 2 --three", "1", "4"));
  EXPECT_THAT(last_words("declare -A L=([7b]=32 [70b]=80)\nrun ${L[$SIZE]}\n", {{"SIZE", "70b"}}),
              ElementsAre("run", "80"));
  EXPECT_THAT(last_words("A=(1 2)\nrun ${A[@]}\n", {{"A", "7"}}), ElementsAre("run", "7"));
  EXPECT_THAT(last_words("A=()\nrun \"${A[@]}\"\n"), ElementsAre("run"));
}

TEST(ShellScript, Calculates) {
  EXPECT_THAT(last_words("A=3\nrun $((A*4+2)) $(( ($A - 1) / 2 % 2 )) $((-A)) $((A**2))\n"),
              ElementsAre("run", "14", "1", "-3", "9"));
  EXPECT_THAT(last_words("X=$(( ($A + 1) * (B - $C) ))\nY=$((X / 2))\nrun $Y z\n", {{"A", "3"}}),
              ElementsAre("run", "${B}${C}", "z"));
  const ShellScript script("A=$((1/0))\nrun x\n", "a.sh", {});
  EXPECT_THAT(script.left_out(),
              ElementsAre(AllOf(HasSubstr("line 1"), HasSubstr("division by 0"))));
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
  EXPECT_THAT(ShellScript(text, "a.sh", {}).asked(), ElementsAre("M"));
  EXPECT_THAT(ShellScript(text, "a.sh", {{"M", ""}}).asked(), IsEmpty());
}

TEST(ShellScript, FollowsLoopsFunctionsAndCases) {
  const std::string text =
      "run() { go \"$@\" $1; }\nfor i in 1 2; do\n  case $i in\n    1) B=one ;;\n    *) B=more ;;\n"
      "  esac\n  run $i $B\ndone\n";
  const ShellScript script(text, "a.sh", {});
  ASSERT_EQ(script.commands().size(), 2);
  EXPECT_THAT(script.commands()[0].words, ElementsAre("go", "1", "one", "1"));
  EXPECT_THAT(script.commands()[1].words, ElementsAre("go", "2", "more", "2"));
  EXPECT_EQ(script.commands()[1].line, 1);  // of the function
  EXPECT_THAT(last_words("for i in $(seq 2 2 6); do N+=$i; done\nrun $N $(basename /a/b.sh .sh) "
                         "$(dirname /a/b) $(expr 2 \\* 3) $(cat <<EOF\nx\nEOF\n)\n"),
              ElementsAre("run", "246", "b", "/a", "6", "x"));
}

TEST(ShellScript, SaysWhatTheMachineDecides) {
  const std::string text =
      "if [ -f x ]; then A=1; fi\n[[ \"$(hostname)\" == b ]] && A=2\nN=$(nvidia-smi -L | wc -l)\n"
      "if [ $N -gt 4 ]; then A=3; fi\nrun $A $N $(date) \"$((N * 2))\"\n";
  const ShellScript script(text, "a.sh", {});
  EXPECT_THAT(script.commands().back().words, ElementsAre("run", "${N}", "$(...)", "${N}"));
  EXPECT_THAT(script.untold(),
              ElementsAre("line 1: [ -f x ]", HasSubstr("line 2: [["), "line 4: [ $N -gt 4 ]"));
  const ShellScript other(text, "a.sh", {}, ShellScript::Untold::as_true);
  EXPECT_EQ(other.commands().back().words[1], "3");
  EXPECT_THAT(ShellScript(text, "a.sh", {{"N", "2"}}).untold(), ::testing::SizeIs(2));
  EXPECT_THAT(last_words(text, {{"N", "2"}}), ElementsAre("run", "2", "$(...)", "4"));
}

TEST(ShellScript, FollowsChains) {
  const std::string text =
      "[ \"$M\" = a ] && A=1 || A=2\n[[ $M == a && -n $M ]] || B=3\n"
      "! [ $M = a ] && (C=4; D=5) && E=6\n[ $M = b ] && { F=7; }\n"
      "cd x && G=8 || G=9\ntest $M = b &&\n  H=10\nrun $A $B $C $D $E $F $G $H\n";
  EXPECT_THAT(last_words(text, {{"M", "a"}}), ElementsAre("run", "1", "8"));
  EXPECT_THAT(last_words(text, {{"M", "b"}}), ElementsAre("run", "2", "3", "6", "7", "8", "10"));
}

TEST(ShellScript, GoesOnWhereAScriptGivesUp) {
  const ShellScript script(
      "set -euo pipefail\n[ -f data ] || { echo no data; exit 1; }\n"
      "export PATH=/opt/bin:$PATH\nulimit -n 65536\nfalse\nread A < hosts\n"
      "exec > log 2>&1\n. ./env.sh\nrun x < /dev/null >> log\nexit\nrun y\n",
      "a.sh", {});
  EXPECT_THAT(script.commands().back().words, ElementsAre("run", "x"));
  EXPECT_THAT(script.left_out(), ElementsAre("line 2: exit 1, which is passed over",
                                             AllOf(HasSubstr("line 8"), HasSubstr("./env.sh")),
                                             AllOf(HasSubstr("line 6"), HasSubstr("hosts"))));
}

TEST(ShellScript, HasRedirectionsBehindEmptyWords) {
  EXPECT_THAT(last_words("run \"\"> log 2> more\n"), ElementsAre("run", ""));
}

TEST(ShellScript, ReadsCommandsWithinCommands) {
  const ShellScript script(
      "A='--x 1'\nsrun -n 2 bash -c \"run $A \\$B\" 2>&1 | tee log\neval \"go $A\"\n"
      "ssh host \"cd x; far $A\"\nexec bash <<EOF\nlast $A\nEOF\n",
      "a.sh", {});
  std::vector<Words> words;
  for (const ShellCommand& command : script.commands())
    if (command.words.front() != "tee") words.push_back(command.words);
  EXPECT_THAT(words, ElementsAre(ElementsAre("srun", "-n", "2", "run", "--x", "1", "${B}"),
                                 ElementsAre("go", "--x", "1"), ElementsAre("far", "--x", "1"),
                                 ElementsAre("last", "--x", "1")));
}

TEST(ShellScript, KnowsProgramsByTheirPaths) {
  const ShellScript script("B=/opt/bin\n$B/python a.py\n\"$B/run it\" x\nX=1 ./b.sh y\n", "a.sh",
                           {});
  ASSERT_EQ(script.commands().size(), 2);
  EXPECT_THAT(script.commands()[0].words, ElementsAre("/opt/bin/python", "a.py"));
  EXPECT_THAT(script.commands()[1].words, ElementsAre("./b.sh", "y"));
  EXPECT_EQ(script.commands()[1].line, 4);
}

TEST(ShellScript, LeavesOutTextsForOthers) {
  EXPECT_THAT(last_words("cat <<EOT > file\n--no 1 'unquoted\nEOT\nrun <<<x `date` $(hostname)\n"),
              ElementsAre("run", "$(...)", "$(...)"));
  EXPECT_THAT(last_words("# only\n\n"), IsEmpty());
}

TEST(ShellScript, KnowsWhatSlurmWasTold) {
  EXPECT_THAT(last_words("#!/bin/bash\n#SBATCH --nodes=24   # all\n#SBATCH -n 48\n"
                         "#SBATCH --gres gpu:a100:4\nrun $SLURM_NNODES $SLURM_NTASKS "
                         "$SLURM_GPUS_ON_NODE ${SLURM_PROCID}\n"),
              ElementsAre("run", "24", "48", "4", "${SLURM_PROCID}"));
}

TEST(ShellScript, HasTheVariablesThatItEndsWith) {
  const ShellScript script("B=\"--x 1\"\nA=(--y \"2 3\")\nexport C=$D\n[ ] && E=1\n", "a.sh", {});
  EXPECT_THAT(script.variables(),
              ElementsAre(Pair("B", ElementsAre("--x 1")), Pair("A", ElementsAre("--y", "2 3")),
                          Pair("C", ElementsAre("${D}"))));
}

TEST(ShellScript, SaysWhereItIsNoScript) {
  for (const auto& [text, line] : {std::pair{"run\nA=\"1\n2\n", "line 2"},
                                   {"A=(1\n2", "a.sh, line"},
                                   {"if [ a ]; then\nrun\n", "a.sh, line"},
                                   {"\nfor i in x; do run\n", "a.sh, line"},
                                   {"run `date\n", "line 1"},
                                   {"run\nrun )\n", "line 2"}})
    EXPECT_THAT(message_of<InputError>([&, text = text] { (void)last_words(text); }),
                AllOf(HasSubstr("a.sh"), HasSubstr(line), HasSubstr("as bash reads it")))
        << text;
  EXPECT_THAT(message_of<InputError>([] {
                (void)last_words("run\n", {{"a-b", "1"}});
              }),
              HasSubstr("--set is \"a-b=1\""));
}

TEST(ShellScript, EndsWhereAScriptDoesNot) {
  EXPECT_THAT(message_of<InputError>([] { (void)last_words("while :; do :; done\n"); }),
              AllOf(HasSubstr("a.sh"), HasSubstr("does not end")));
  const ShellScript script("run\nwhile :; do :; done\n", "a.sh", {});
  EXPECT_THAT(script.commands().back().words, ElementsAre("run"));
  EXPECT_THAT(script.left_out(), ElementsAre(HasSubstr("does not end")));
}

}  // namespace
}  // namespace frugal::harness
