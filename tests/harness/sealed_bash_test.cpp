#include "harness/import/sealed_bash.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"

namespace frugal::harness {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

SealedBash run(const std::string& text, Clock::duration within = std::chrono::seconds(4)) {
  return run_sealed_bash(text, "a.sh", false, Clock::now() + within);
}

/// Output of a script on the descriptor for records.
std::string said_by(const std::string& text) { return run(text).written; }

/// A folder with a file that has a secret in it, and a program that leaves a trace.
class Hostile : public ::testing::Test {
 protected:
  Hostile() {
    fs::permissions(folder(), fs::perms::all);
    std::ofstream(secret()) << "secret\n";
    std::ofstream(program()) << "#!/bin/bash\necho ran > " << folder() + "/trace"
                             << "\n";
    fs::permissions(program(), fs::perms::all);
  }
  /// Runs a text in which @ stands for the folder.
  SealedBash run_here(std::string text) const {
    for (size_t at = 0; (at = text.find('@', at)) != std::string::npos;)
      text.replace(at, 1, folder());
    return run(text + "\necho end >&50\n");
  }
  std::string folder() const { return folder_.path(); }
  std::string secret() const { return folder_ / "secret"; }
  std::string program() const { return folder_ / "program"; }
  int files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder()), {}));
  }

 private:
  const testing::Folder folder_;
};

TEST(SealedBash, CalculatesAsBashDoes) {
  const SealedBash bash =
      run("A=(1 2 3)\nf() { echo $((${#A[@]} * $1)); }\n"
          "echo $(f 2) $0 >&50\necho \"x\" | { read y; echo $y >&50; }\n");
  EXPECT_TRUE(bash.started && bash.ended);
  EXPECT_EQ(bash.written, "6 a.sh\nx\n");
  EXPECT_EQ(bash.messages, "");
}

TEST(SealedBash, OnlyChecksWhereToldTo) {
  const auto checked = [](const char* text) {
    return run_sealed_bash(text, "a.sh", true, Clock::now() + std::chrono::seconds(4));
  };
  EXPECT_EQ(checked("echo x >&50\necho y >&2\n").written, "");
  EXPECT_EQ(checked("echo x >&50\necho y >&2\n").messages, "");
  EXPECT_THAT(checked("echo x\nif").messages, HasSubstr("syntax error"));
}

TEST_F(Hostile, WritesNoFile) {
  for (const char* text :
       {"echo x > @/new", "echo x >> @/secret", "echo x >| @/secret", ": <> @/new", "> @/secret",
        "printf x &> @/new", "cat <<EOF > @/new\nx\nEOF", "history -s x; history -w @/new",
        "exec 3> @/new; echo x >&3", "set -o history; HISTFILE=@/new; history -a",
        "mapfile -t x > @/new", "cd @ && echo x > new"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(run_here(text).written, HasSubstr("end"));
    EXPECT_EQ(files(), 2);
    EXPECT_EQ(fs::file_size(secret()), 7);
  }
}

TEST_F(Hostile, StartsNoProgram) {
  for (const char* text :
       {"@/program", "exec @/program", "command -p touch @/new", "command @/program",
        "PATH=/bin:/usr/bin; touch @/new", "hash -p @/program p; p", "(@/program) & wait",
        "f() { @/program; }; f", "x=$(@/program)", "@/program | @/program",
        "/bin/sh -c '@/program'", "trap '@/program' EXIT", "coproc @/program; wait", ". @/program",
        "source @/program", "BASH_ENV=@/program bash -c :", "set +r; env @/program",
        "enable -f @/program x"}) {
    SCOPED_TRACE(text);
    (void)run_here(text);
    EXPECT_EQ(files(), 2);
  }
  for (const char* text :
       {"/bin/echo ran >&50", "exec /bin/echo ran >&50", "command -p env echo ran >&50",
        "PATH=/bin:/usr/bin; env echo ran >&50", "f() { /usr/bin/env echo ran; }; f >&50"})
    EXPECT_THAT(run(text).written, Not(HasSubstr("ran"))) << text;
}

TEST_F(Hostile, ReadsNoFile) {
  for (const char* text :
       {"read x < @/secret; echo \"$x\" >&50", "echo $(<@/secret) >&50",
        "mapfile x < @/secret; echo ${x[*]} >&50", "source @/secret; echo $? >&50",
        "while read x; do echo $x >&50; done < @/secret", "history -r @/secret; history >&50",
        "exec 4< @/secret; read -u 4 x; echo $x >&50",
        "exec 4<> @/secret; read -u 4 x; echo $x >&50", "echo @/* >&50", "compgen -G '@/s*' >&50",
        "[ -e @/secret ] && echo seen >&50", "[[ -r @/secret ]] && echo seen >&50",
        "cd @ && echo s* >&50", "select x in @/*; do echo $x >&50; done",
        "HOSTFILE=@/secret; compgen -A hostname >&50",
        "read x < /proc/self/environ; echo $x >&50"}) {
    SCOPED_TRACE(text);
    const std::string written = run_here(text).written;
    EXPECT_THAT(written, HasSubstr("end"));
    EXPECT_THAT(written, Not(AnyOf(HasSubstr("secret\n"), HasSubstr("secret "), HasSubstr("seen"),
                                   HasSubstr("PATH"))));
  }
}

TEST(SealedBash, OpensNoSocket) {
  EXPECT_EQ(said_by("exec 3<>/dev/tcp/127.0.0.1/1; echo $? >&50"), "1\n");
  EXPECT_THAT(run("exec 3<>/dev/tcp/127.0.0.1/1").messages, HasSubstr("not implemented"));
  EXPECT_EQ(said_by("echo x > /dev/udp/127.0.0.1/9; echo $? >&50"), "1\n");
}

TEST(SealedBash, SignalsNobody) {
  EXPECT_EQ(said_by("kill -9 $PPID; kill -9 -1; kill -9 0; suspend; echo still >&50"), "still\n");
}

TEST(SealedBash, HasNoEnvironment) {
  ASSERT_EQ(setenv("FRUGAL_SECRET", "hidden", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(said_by("declare -p >&50; export -p >&50"), Not(HasSubstr("hidden")));
  unsetenv("FRUGAL_SECRET");  // NOLINT(concurrency-mt-unsafe)
}

TEST(SealedBash, HasNoOtherDescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(dup2(ends[0], 40), 40);
  ASSERT_EQ(write(ends[1], "hidden\n", 7), 7);
  EXPECT_EQ(said_by("for fd in {3..49} {52..63}; do read -t 0 -u $fd && echo $fd >&50; done"), "");
  for (const int fd : {ends[0], ends[1], 40}) close(fd);
}

TEST(SealedBash, EndsInTime) {
  for (const char* text :
       {"while :; do :; done", ":(){ :|:& };:", "x=a; while :; do x=$x$x; done", "f() { f; }; f",
        "while :; do echo flood; done", "while :; do echo flood >&2; done",
        "while :; do echo flood >&50; done", "coproc :; read -t 100 <&50", "while :; do (:) & done",
        "while :; do (while :; do :; done) & done", "read x; read x; select y in 1; do :; done",
        "trap '' TERM INT XCPU; while :; do :; done", "(while :; do :; done) & wait",
        "x=(); while :; do x+=(y y y y); done", "echo {1..99999999} >&2",
        "printf %99999999999d 1"}) {
    SCOPED_TRACE(text);
    const auto begin = Clock::now();
    const SealedBash bash = run(text, std::chrono::milliseconds(500));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
    EXPECT_LE(bash.written.size(), size_t{4} << 20);
  }
  EXPECT_EQ(run("while :; do printf %65536d 1 >&50; done").written.size(), size_t{4} << 20);
  // After 2 s of a processor.
  for (const char* text : {"while :; do :; done", "trap '' TERM INT XCPU; while :; do :; done"}) {
    const auto begin = Clock::now();
    EXPECT_FALSE(run(text, std::chrono::seconds(30)).ended);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15));
  }
  EXPECT_TRUE(run("(while :; do :; done) &").ended);  // what it leaves behind is killed
}

}  // namespace
}  // namespace frugal::harness
