// frugal as it is, in which something goes wrong where FRUGAL_FAULT says so: "KIND MOMENT RANK", in
// whichever case of the run comes to that moment for the so-manieth time first.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "bench/benchmarks.h"
#include "experiments/artifacts.h"
#include "harness/cli/program.h"
#include "kernels/device.h"

namespace frugal::testing {
namespace {

using namespace kernels;

/// Passes and steps before something goes wrong: some steps are done by then.
constexpr int times_before = 40;

struct Fault {
  std::string kind, moment;
  int rank = -1;
};

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

/// The process's rank; −1 where ranks are threads.
int rank_of_process() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? -1 : std::atoi(rank);
}

void say(const std::string& what) {  // for the test, which knows then that it happened
  const std::string line = "fault: " + what + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

void stall() {
  if (rank_of_process() >= 0)
    ::raise(SIGSTOP);
  else
    std::this_thread::sleep_for(std::chrono::seconds(8));
}

/// To the launcher, which has a moment to act upon it; or to this process, where there is none.
void signal_to_all(int number) {
  if (rank_of_process() < 0) {
    ::raise(number);
    return;
  }
  ::kill(::getppid(), number);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

/// What needs no operand.
void happen() {
  say(fault().kind);
  if (fault().kind == "kill") ::raise(SIGKILL);
  if (fault().kind == "stall") stall();
  if (fault().kind == "terminate") signal_to_all(SIGTERM);
  if (fault().kind == "interrupt") signal_to_all(SIGINT);
  if (fault().kind == "throw") throw std::runtime_error("thrown by the test");
  if (fault().kind == "memory") ::operator delete(::operator new (size_t{1} << 60));
}

bool is_optimizers(const Operation& operation) {
  return std::holds_alternative<Adam>(operation) || std::holds_alternative<Momentum>(operation);
}

bool is_moment(const Operation& operation) {
  const std::string& moment = fault().moment;
  if (moment == "start") return std::holds_alternative<RandomNormal>(operation);
  if (moment == "forward") return std::holds_alternative<LayerNorm>(operation);
  if (moment == "backward") return std::holds_alternative<LayerNormBackward>(operation);
  return moment == "optimizer" && is_optimizers(operation);
}

void write_nan(const Operation& operation) {
  View out;
  if (const auto* normal = std::get_if<RandomNormal>(&operation)) out = normal->x;
  if (const auto* norm = std::get_if<LayerNorm>(&operation)) out = norm->y;
  if (const auto* backward = std::get_if<LayerNormBackward>(&operation)) out = backward->dx;
  if (const auto* adam = std::get_if<Adam>(&operation)) out = adam->update.target();
  say("nan");
  static_cast<float*>(out.data)[0] = std::numeric_limits<float>::quiet_NaN();
}

/// Counts what its device does; devices are made in the order of ranks.
Device::OnOperation counting() {
  static std::atomic<int> devices = 0;
  const int device = devices++;
  const int rank = rank_of_process() >= 0 ? rank_of_process() : device;
  if (rank != fault().rank || (rank_of_process() >= 0 && device > 0)) return {};
  return [seen = 0](const Operation& operation, double /*seconds*/) mutable {
    if (!is_moment(operation)) return;
    if (++seen != (fault().moment == "start" ? 1 : times_before)) return;
    if (fault().kind == "nan")
      write_nan(operation);
    else
      happen();
  };
}

}  // namespace
}  // namespace frugal::testing

/// The C library's, through which records and checkpoints come to the disk.
extern "C" int fsync(int file) {
  using frugal::testing::fault;
  static std::atomic<int> calls = 0;
  const int rank = frugal::testing::rank_of_process();
  if (fault().moment == "write" && (rank < 0 || rank == fault().rank) && ++calls == 3)
    frugal::testing::happen();
  return static_cast<int>(::syscall(SYS_fsync, file));
}

int main(int argc, char** argv) {
  if (!frugal::testing::fault().kind.empty())
    frugal::kernels::Device::for_new() = frugal::testing::counting;
  frugal::harness::Program program(frugal::experiments::all_artifacts(),
                                   frugal::bench::all_benchmarks());
  return program.main(argc, argv);
}
