#include "bench/benchmarks.h"
#include "experiments/artifacts.h"
#include "experiments/papers.h"
#include "harness/cli/command_line.h"
#include "kernels/cpu/cores.h"

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  frugal::harness::CommandLine line(frugal::experiments::all_artifacts(),
                                    frugal::bench::all_benchmarks(),
                                    frugal::experiments::all_papers());
  return line.main(argc, argv);
}
