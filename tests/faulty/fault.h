#pragma once
#include <string>

namespace frugal::testing {

/// The fault that a test wants: FRUGAL_FAULT="KIND MOMENT RANK". A moment is one of training, of
/// writing, or a call by which files are changed, by its number: "call-17". FRUGAL_FAULT_COMMAND is
/// what a shell runs then, for what comes from outside the program.
struct Fault {
  std::string kind, moment;
  int rank = -1;
};
const Fault& fault();

/// The process's rank; −1 where ranks are threads.
int rank_of_process();

/// Lets it go wrong, now, in the rank that calls, and notes the moment on stderr and in the file
/// FRUGAL_FAULT_FILE: of a host that has lost its network, the launcher shows no words. A value
/// that is not a number has to be written by the caller, who has the operands.
void happen();

/// Tells the test, on stderr.
void say(const std::string& what);

/// Lets no file of this process be written from now on, for the reason that an errno says.
void fail_files(int error);

}  // namespace frugal::testing
