// frugal_bench_compare: ratios against oneDNN and against the machine's copy bandwidth.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/compare/contest.h"
#include "harness/environment.h"
#include "kernels/cpu/waiting.h"
#include "kernels/support/error.h"

int main(int argc, char** argv) {
  frugal::limit_spinning(argv);
  frugal::bench::Options options;
  options.threads = frugal::usable_processors();
  CLI::App app("Ratios of rates, both sides measured by turns in one run", "frugal_bench_compare");
  app.add_option("--on", options.on, "Where memory-bound operations run")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", options.threads, "Threads of both sides")->check(CLI::PositiveNumber);
  app.add_option("--samples", options.samples, "Rounds that are wanted, at least 10");
  app.add_option("--budget", options.budget, "Seconds after which a case has no further rounds");
  app.add_option("--filter", options.filter, "Only cases whose name contains this");
  app.add_option("--json", options.json, "File for raw samples");
  app.fallthrough()->require_subcommand(1);
  app.add_subcommand("gemm", "The model's matrix multiplications against oneDNN called directly")
      ->callback([&] { compare_gemm(options); });
  app.add_subcommand("memory-bound", "Operations' bytes per second against a copy's")
      ->callback([&] { compare_memory_bound(options); });
  app.add_subcommand("attention", "Fused attention against separate products and softmax")
      ->callback([&] { compare_attention(options); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const frugal::InputError& error) {
    fmt::print(stderr, "frugal_bench_compare: {}\n", error.what());
    return 2;
  } catch (const frugal::OutOfMemory& error) {
    fmt::print(stderr, "frugal_bench_compare: {}\n", error.what());
    return 3;
  }
}
