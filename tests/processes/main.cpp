#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/gpus.h"
#include "tests/emulator/gpu.h"
#include "tests/processes/world.h"

namespace frugal::testing {
namespace {

World* of_this_program = nullptr;
MakeProcessGroup groups_of_this_program;

/// A process that fails a test goes on, and the others with it: they must not wait for it.
int run_all() {
  const int own = RUN_ALL_TESTS();
  const std::vector<std::string> all = world().exchange(std::to_string(own));
  return std::all_of(all.begin(), all.end(), [](const std::string& each) { return each == "0"; })
             ? 0
             : 1;
}

}  // namespace

World& world() { return *of_this_program; }
const MakeProcessGroup& groups() { return groups_of_this_program; }

int main_of_process(int argc, char** argv) {
  kernels::load_kernels_at_first();
  emulator::gpu().count = emulator::most_gpus;
  emulator::gpu().memory = int64_t{1} << 30;  // addresses of eight programs of eight GPUs
  MpiSession session;
  if (session.rank() > 0) GTEST_FLAG_SET(brief, true);  // only their failures are to be seen
  ::testing::InitGoogleTest(&argc, argv);
  World processes(session.rank(), session.size(),
                  [&](const std::string& address) { return session.tell(address); },
                  {.deadline = 60});
  of_this_program = &processes;
  groups_of_this_program = mpi_groups(processes);
  const int failed = run_all();
  processes.leave();
  return failed;
}

}  // namespace frugal::testing

int main(int argc, char** argv) { return frugal::testing::main_of_process(argc, argv); }
