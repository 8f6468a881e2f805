/// A place to run, as HACKING.md describes it: a class in a file of its own.
#include <gmock/gmock.h>

#include "harness/measure/new_record.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

/// A machine of hardware/ of which others use all memory but some.
class BorrowedMachine : public Target {
 public:
  BorrowedMachine(const std::string& machine, int64_t left)
      : Target("virtual:" + machine, with_memory(find_machine(machine), left), {}) {}

  DeviceKind kind() const override { return DeviceKind::simulated; }
  using Target::device;
  std::string device() const override { return "borrowed: " + machine()->name; }
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override {
    return make_virtual_cluster(config, *machine());
  }
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const override {
    return make_virtual_cluster(config, with_memory(*machine(), memory));
  }
  int64_t memory_of_rank(const RunConfig& /*config*/) const override {
    return machine()->memory_capacity;
  }

 private:
  static Machine with_memory(Machine machine, int64_t bytes) {
    machine.memory_capacity = bytes;
    return machine;
  }
};

Record observed(const Target& target) {
  const Case c{.id = "layer", .config = testing::tiny(), .on = target.on()};
  Record record = new_record("test", c, target, {}, "frugal test");
  PeakRates peaks(target);
  run_of_case(c, target, peaks, {})->observe(record);
  return record;
}

TEST(Place, RunsWhatOthersRun) {
  const Record borrowed = observed(BorrowedMachine("a100-selene", 1 << 30));
  EXPECT_EQ(borrowed.device, "borrowed: a100-selene");
  const auto whole = make_target({.on = "virtual:a100-selene"});
  EXPECT_EQ(borrowed.memory.value().peak_total, observed(*whole).memory.value().peak_total);
  EXPECT_NE(borrowed.fingerprint, observed(*whole).fingerprint);
}

TEST(Place, HasTheMemoryThatItSays) {
  EXPECT_THROW(observed(BorrowedMachine("a100-selene", 1 << 10)), OutOfMemory);
}

}  // namespace
}  // namespace frugal::harness
