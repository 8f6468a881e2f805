#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/compare/pairing.h"
#include "harness/measure/progress.h"

namespace frugal::harness {

/// A side of a comparison as it is run again.
struct RunAgain {
  std::string folder;                      ///< its records are added to those here
  std::string program;                     ///< a frugal, which runs the commands
  std::vector<std::string> commands = {};  ///< as records have them: "frugal bench gemm …"
};

/// The commands of these records, each once, in their order.
std::vector<std::string> commands_of(const std::vector<CasePair>& pairs, CaseRuns CasePair::*side);

/// A record's command as a shell runs it: with that program in the place of `frugal`, and so that
/// it adds its records to the folder's, whatever is recorded there.
std::string shell_command(const std::string& command, const RunAgain& side);

/// Runs every command of both sides `times` times, each as a process of its own. In each turn all
/// run, a command of both sides directly one after the other, in an order that is drawn from the
/// seed: what varies over time falls on both sides alike.
/// Throws InputError with the last line that a command said where it fails, Interrupted where the
/// user stops it. What was recorded until then is kept.
void run_by_turns(const std::vector<RunAgain>& sides, int times, uint64_t seed, Progress& progress);

}  // namespace frugal::harness
