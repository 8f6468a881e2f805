#include "bench/benchmarks.h"
#include "experiments/artifacts.h"
#include "harness/cli/program.h"
#include "kernels/cpu/waiting.h"

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  frugal::harness::Program program(frugal::experiments::all_artifacts(),
                                   frugal::bench::all_benchmarks());
  return program.main(argc, argv);
}
