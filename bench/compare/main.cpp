// frugal_bench_compare: ratios against oneDNN and against the machine's copy bandwidth.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/compare/contest.h"
#include "harness/measure/interrupt.h"
#include "harness/place/environment.h"
#include "kernels/cpu/waiting.h"
#include "kernels/support/error.h"

namespace {

using frugal::bench::Options;
using frugal::bench::Report;

/// Whatever ends it, the table has what was measured until then.
void compare(const Options& options, const char* unit, void (*contests)(Report&)) {
  Report report(options, unit);
  try {
    contests(report);
  } catch (...) {
    report.print();
    throw;
  }
  report.print();
}

int fail(const std::exception& error, int status) {
  fmt::print(stderr, "frugal_bench_compare: {}\n", error.what());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  frugal::harness::catch_interrupts();
  Options options;
  options.threads = frugal::harness::usable_processors();
  CLI::App app("Ratios of rates, both sides measured by turns in one run", "frugal_bench_compare");
  app.add_option("--on", options.on,
                 "Where memory-bound operations run: cpu, cuda, or virtual:MACHINE");
  app.add_option("--threads", options.threads, "Threads of both sides")->check(CLI::PositiveNumber);
  app.add_option("--samples", options.samples, "Rounds that are wanted, at least 10");
  app.add_option("--budget", options.budget, "Seconds after which a case has no further rounds");
  app.add_option("--filter", options.filter, "Only cases whose name contains this");
  app.add_option("--json", options.json,
                 "File that raw samples are added to, a line for each case");
  app.fallthrough()->require_subcommand(1);
  app.add_subcommand("gemm", "The model's matrix multiplications against oneDNN called directly")
      ->callback([&] { compare(options, "GFLOP/s", frugal::bench::compare_gemm); });
  app.add_subcommand("memory-bound", "Operations' bytes per second against a copy's")
      ->callback([&] { compare(options, "GB/s", frugal::bench::compare_memory_bound); });
  app.add_subcommand("attention", "Fused attention against separate products and softmax")
      ->callback([&] { compare(options, "GFLOP/s", frugal::bench::compare_attention); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const frugal::kernels::InputError& error) {
    return fail(error, 2);
  } catch (const frugal::kernels::OutOfMemory& error) {
    return fail(error, 3);
  } catch (const frugal::harness::Interrupted& error) {
    return fail(error, 130);
  } catch (const std::exception& error) {
    return fail(error, 6);
  }
}
