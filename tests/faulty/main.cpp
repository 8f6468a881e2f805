// frugal as it is, in which something goes wrong where FRUGAL_FAULT says so (tests/faulty/fault.h),
// in whichever case of the run comes to that moment for the so-manieth time first.
#include <atomic>
#include <limits>
#include <variant>

#include "bench/benchmarks.h"
#include "engine/rank.h"
#include "experiments/artifacts.h"
#include "experiments/papers.h"
#include "harness/cli/command_line.h"
#include "tests/faulty/fault.h"
#include "tests/faulty/lasting.h"

namespace frugal::testing {
namespace {

using namespace engine;

/// Passes and steps before something goes wrong: some steps are done by then.
constexpr int times_before = 40;

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
  static_cast<float*>(out.data)[0] = std::numeric_limits<float>::quiet_NaN();
}

/// Counts what the device of the first such rank does.
Device::OnOperation counting() {
  static std::atomic<bool> found = false;
  if (found.exchange(true)) return {};
  return [seen = 0](const Operation& operation, double /*seconds*/) mutable {
    if (!is_moment(operation)) return;
    if (++seen != (fault().moment == "start" ? 1 : times_before)) return;
    happen();
    if (fault().kind == "nan") write_nan(operation);
  };
}

void on_new_rank(Rank& rank) {
  const int index = rank_of_process() >= 0 ? rank_of_process() : rank.index;
  if (index != fault().rank) return;
  Device::OnOperation lasting = lasting_fault(rank.device);
  if (!lasting) lasting = counting();
  if (lasting) rank.device.time_operations(std::move(lasting));
}

}  // namespace
}  // namespace frugal::testing

int main(int argc, char** argv) {
  if (!frugal::testing::fault().kind.empty())
    frugal::engine::Rank::for_new() = frugal::testing::on_new_rank;
  frugal::harness::CommandLine line(frugal::experiments::all_artifacts(),
                                    frugal::bench::all_benchmarks(),
                                    frugal::experiments::all_papers());
  return line.main(argc, argv);
}
