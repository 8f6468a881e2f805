#include "harness/compare/turns.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <regex>

#include "harness/measure/interrupt.h"
#include "harness/record/exit.h"
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
  // Out of memory, and a claim that fails, are in a record.
  const bool recorded = ended.status == 0 ||
                        ended.status == static_cast<int>(Exit::out_of_memory) ||
                        ended.status == static_cast<int>(Exit::claim_failed);
  if (!recorded)
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
  std::string arguments = found.suffix().str();
  const std::string reruns = "rerun ";
  const bool of_record = arguments.starts_with(reruns);
  if (of_record)  // which it names by its file alone
    arguments.insert(reruns.size(), shell_word(side.folder + "/"));
  return fmt::format("{}{}{} {} --out {}{} 2>&1 >/dev/null", found.prefix().str(), found[1].str(),
                     shell_word(side.program), arguments, shell_word(side.folder),
                     of_record ? "" : " --rerun all");
}

namespace {

/// What is run directly one after the other: the same command of all sides, where they have as many
/// commands; or all of them.
std::vector<std::vector<Run>> groups_of(const std::vector<RunAgain>& sides) {
  const size_t commands = sides.front().commands.size();
  const bool alike = std::all_of(sides.begin(), sides.end(), [commands](const RunAgain& side) {
    return side.commands.size() == commands;
  });
  std::vector<std::vector<Run>> groups(alike ? commands : 1);
  for (const RunAgain& side : sides)
    for (size_t i = 0; i < side.commands.size(); ++i)
      groups[alike ? i : 0].push_back({&side, &side.commands[i]});
  return groups;
}

/// That of the standard library is its own in each: this one is the same everywhere.
template <class T>
void shuffle(std::vector<T>& all, std::mt19937_64& random) {
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random() % i]);
}

}  // namespace

void run_by_turns(const std::vector<RunAgain>& sides, int times, uint64_t seed,
                  Progress& progress) {
  std::vector<std::vector<Run>> groups = groups_of(sides);
  for (const std::vector<Run>& group : groups)
    progress.more(group.size() * static_cast<size_t>(times));
  std::mt19937_64 random(seed);
  for (int turn = 1; turn <= times; ++turn) {
    shuffle(groups, random);
    for (std::vector<Run>& group : groups) {
      shuffle(group, random);
      for (const Run& one : group) {
        const std::string what = fmt::format("turn {} of {}: {}", turn, times, one.side->folder);
        progress.working_on(what);
        run(one);
        progress.finished(what, "ok");
      }
    }
  }
}

}  // namespace frugal::harness
