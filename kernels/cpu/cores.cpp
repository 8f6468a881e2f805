#include "kernels/cpu/cores.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "kernels/support/error.h"

namespace frugal::kernels {
namespace {

void check(int error, const char* call) {
  if (error != 0) throw std::system_error(error, std::generic_category(), call);
}

/// The processors of the same core, as the system lists them; the processor itself where it does
/// not say.
std::string core_of(int processor) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
  std::string siblings;
  return std::getline(file, siblings) ? siblings : std::to_string(processor);
}

}  // namespace

Processors processors_of_this_thread() {
  cpu_set_t set;
  check(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), "pthread_getaffinity_np");
  Processors processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  return processors;
}

void pin_this_thread(const Processors& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  check(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), "pthread_setaffinity_np");
}

std::vector<Processors> divide_cores(int ranks, int cores_each) {
  Processors first_of_each;
  std::set<std::string> seen;
  for (const int processor : processors_of_this_thread())
    if (seen.insert(core_of(processor)).second) first_of_each.push_back(processor);
  const auto there = std::ssize(first_of_each);
  if (int64_t{ranks} * cores_each > there)
    throw InputError(fmt::format(
        "{} rank{} of {} thread{} pinned to cores of their own need {} cores, and this process may "
        "use {}; choose fewer ranks or threads, or do not pin them",
        ranks, ranks == 1 ? "" : "s", cores_each, cores_each == 1 ? "" : "s",
        int64_t{ranks} * cores_each, there));
  std::vector<Processors> result;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto first = first_of_each.begin() + std::ptrdiff_t{rank} * cores_each;
    result.emplace_back(first, first + cores_each);
  }
  return result;
}

void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  // About a microsecond: enough for threads that end together.
  if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0) execv("/proc/self/exe", argv);
  // Where there is no /proc it goes on, only slower.
}

}  // namespace frugal::kernels
