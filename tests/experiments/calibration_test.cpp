/// What the files of hardware/ say was fitted is what fitting gives, to what they say.
#include "harness/calibrate/calibration.h"

#include <gmock/gmock.h>

#include <set>

#include "experiments/artifacts.h"

namespace frugal::experiments {
namespace {

std::vector<std::string> fitted_machines() {
  std::vector<std::string> all;
  for (const std::string& name : machine_names())
    if (!find_fit(name).parameters.empty()) all.push_back(name);
  return all;
}

/// What says that it was fitted is what the file lists as fitted, and nothing that was held out was
/// fitted to.
TEST(FittedMachines, SayOfEachNumberThatWasFittedThatItWas) {
  for (const std::string& name : machine_names()) {
    const Machine m = find_machine(name);
    const Fit fit = find_fit(name);
    std::set<std::string> said, listed(fit.parameters.begin(), fit.parameters.end());
    for (const auto& parameter : m.parameters)
      if (parameter.source.starts_with("fitted:")) said.insert(parameter.key);
    EXPECT_EQ(said, listed) << name;
    EXPECT_EQ(fit.parameters.empty(), fit.to.empty()) << name;
    for (const Fit::Cells& cells : fit.to)
      EXPECT_THAT(fit.held_out, ::testing::Not(::testing::Contains(cells.artifact))) << name;
  }
}

TEST(FittedMachines, AreFittedToNothingThatIsHeldOut) {
  ASSERT_FALSE(fitted_machines().empty());
  for (const std::string& name : fitted_machines()) {
    const FittedMachine machine(name, all_artifacts());  // every artifact is there
    EXPECT_THAT(split_violations(machine.machine().fit), ::testing::IsEmpty()) << name;
    EXPECT_FALSE(machine.held_out().empty()) << name;
  }
}

TEST(FittedMachines, HaveTheValuesThatFittingGives) {
  for (const std::string& name : fitted_machines()) {
    const Refit found = refit(FittedMachine(name, all_artifacts()));
    for (const FittedParameter& p : found.parameters)
      EXPECT_FALSE(p.differs()) << name << ": " << p.key << " is " << p.file << ", fitting gives "
                                << p.refitted << " and is flat within " << p.flat;
  }
}

}  // namespace
}  // namespace frugal::experiments
