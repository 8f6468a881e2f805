#include "harness/compare/turns.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <regex>

#include "harness/measure/interrupt.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// Everything that a command of the shell prints, and how it ended.
struct Ended {
  std::string printed;
  int status = 0;
};

Ended run_in_shell(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw InputError(fmt::format("{}: no process can be started", command));
  Ended ended;
  std::array<char, 4096> part{};
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe))
    ended.printed.append(part.data(), count);
  const int status = ::pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

struct Run {
  const RunAgain* side;
  const std::string* command;
};

void run(const Run& one) {
  const Ended ended = run_in_shell(shell_command(*one.command, *one.side));
  stop_if_interrupted();
  if (ended.status != 0)
    throw InputError(fmt::format("`{}` ended with status {} for {}: {}", *one.command, ended.status,
                                 one.side->folder, last_line(ended.printed)));
}

}  // namespace

std::vector<std::string> commands_of(const std::vector<CasePair>& pairs, CaseRuns CasePair::*side) {
  std::vector<std::string> commands;
  for (const CasePair& pair : pairs) {
    const std::string& command = (pair.*side).runs.back()->command;
    if (std::find(commands.begin(), commands.end(), command) == commands.end())
      commands.push_back(command);
  }
  return commands;
}

std::string shell_command(const std::string& command, const RunAgain& side) {
  static const std::regex program("(^| )frugal( |$)");
  std::smatch found;
  if (!std::regex_search(command, found, program))
    throw InputError(fmt::format(
        "`{}` does not run frugal, so it cannot be repeated; leave --repeat out", command));
  return fmt::format("{}{}{} {} --out {} --rerun all 2>&1 >/dev/null", found.prefix().str(),
                     found[1].str(), shell_word(side.program), found.suffix().str(),
                     shell_word(side.folder));
}

void run_by_turns(const std::vector<RunAgain>& sides, int times, uint64_t seed,
                  Progress& progress) {
  std::vector<Run> runs;
  for (const RunAgain& side : sides)
    for (const std::string& command : side.commands) runs.push_back({&side, &command});
  progress.more(runs.size() * static_cast<size_t>(times));
  std::mt19937_64 random(seed);
  for (int turn = 1; turn <= times; ++turn) {
    // The order of a shuffle of the standard library is its own: this one is the same everywhere.
    for (size_t i = runs.size(); i > 1; --i) std::swap(runs[i - 1], runs[random() % i]);
    for (const Run& one : runs) {
      const std::string what = fmt::format("turn {} of {}: {}", turn, times, one.side->folder);
      progress.working_on(what);
      run(one);
      progress.finished(what, "ok");
    }
  }
}

}  // namespace frugal::harness
