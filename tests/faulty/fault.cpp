#include "tests/faulty/fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace frugal::testing {
namespace {

void stall() {
  if (rank_of_process() >= 0)
    ::raise(SIGSTOP);
  else
    std::this_thread::sleep_for(std::chrono::seconds(8));
}

void hang() {
  static std::atomic<bool> forever = true;
  while (forever) {
  }
}

/// Sends a signal to the launcher, which has a moment to act upon it; or to this process, where
/// there is none.
void signal_to_all(int number) {
  if (rank_of_process() < 0) {
    ::raise(number);
    return;
  }
  ::kill(::getppid(), number);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

void run_command() {
  const char* const command = std::getenv("FRUGAL_FAULT_COMMAND");
  if (command == nullptr || std::system(command) == -1)
    throw std::runtime_error("no command of the test was run");
}

const std::map<std::string, std::function<void()>> kinds = {
    {"kill", [] { ::raise(SIGKILL); }},
    {"crash", [] { ::raise(SIGSEGV); }},
    {"leave", [] { ::_exit(0); }},
    {"stall", stall},
    {"hang", hang},
    {"throw", [] { throw std::runtime_error("thrown by the test"); }},
    {"memory", [] { ::operator delete(::operator new (size_t{1} << 60)); }},
    {"none", [] {}},
    {"nan", [] {}},
    {"full", [] { fail_files(ENOSPC); }},
    {"read-only", [] { fail_files(EROFS); }},
    {"terminate", [] { signal_to_all(SIGTERM); }},
    {"interrupt", [] { signal_to_all(SIGINT); }},
};

}  // namespace

const Fault& fault() {
  static const Fault read = [] {
    Fault fault;
    const char* const text = std::getenv("FRUGAL_FAULT");
    std::istringstream words(text == nullptr ? "" : text);
    words >> fault.kind >> fault.moment >> fault.rank;
    return fault;
  }();
  return read;
}

int rank_of_process() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? -1 : std::atoi(rank);
}

void say(const std::string& what) {
  const std::string line = what + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

void happen() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  const std::string what = fmt::format("fault: {} at {}", fault().kind, now.count());
  say(what);
  if (const char* const file = std::getenv("FRUGAL_FAULT_FILE"); file != nullptr)
    std::ofstream(file) << what << "\n";
  const auto known = kinds.find(fault().kind);
  known == kinds.end() ? run_command() : known->second();
}

}  // namespace frugal::testing
