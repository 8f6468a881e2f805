/// What the files of hardware/ say was fitted is what fitting gives, to what they say.
#include "harness/calibration.h"

#include <gmock/gmock.h>

namespace frugal {
namespace {

std::vector<std::string> fitted_machines() {
  std::vector<std::string> all;
  for (const std::string& name : machine_names())
    if (!find_machine(name).fit.parameters.empty()) all.push_back(name);
  return all;
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
}  // namespace frugal
