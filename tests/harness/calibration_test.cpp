#include "harness/calibrate/calibration.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness/calibrate/published.h"
#include "harness/calibrate/sensitivity.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "tests/harness/support.h"
#include "tests/support/source_dir.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr const char* name = "a100-selene";

/// A layer of which all that is fitted below is a part of the time.
Case layer(const std::string& id, int64_t hidden, Recompute recompute) {
  Case c{.id = id, .config = testing::tiny(), .workload = workload::ModuleTime{}, .on = {}};
  c.on = std::string("virtual:") + name;
  c.config.model.hidden = hidden;
  c.config.model.heads = 32;
  c.config.model.sequence = 1024;
  c.config.tensor_parallel = 8;
  c.config.sequence_parallel = true;
  c.config.recompute = recompute;
  c.config.type = DType::bf16;
  return c;
}

/// Forward and backward time of layers, whose "paper" is a machine with values of its own; and what
/// recomputing adds, in percent.
class Layers : public Artifact {
 public:
  Layers(std::string id, std::vector<Case> cases, std::map<std::string, double> values = {})
      : id_(std::move(id)), cases_(std::move(cases)), values_(std::move(values)) {
    if (!values_.empty()) theirs_ = cells(run_on(find_machine(name, values_), *this, cases_));
  }

  std::string id() const override { return id_; }
  std::string title() const override { return "layers"; }
  std::vector<Case> cases(const Selection&) const override { return cases_; }
  std::vector<Claim> claims(const Records&) const override { return {}; }
  std::vector<Cell> cells(const Records& records) const override {
    std::vector<Cell> all;
    for (const Case& c : cases_)
      for (const char* time : {metric::forward_time, metric::backward_time})
        all.push_back(cell(c.id, time, records));
    for (size_t i = 0; i < theirs_.size(); ++i) all[i].paper = theirs_[i].value;
    return all;
  }

 private:
  Cell cell(const std::string& row, const char* time, const Records& records) const {
    Cell cell;
    cell.artifact = id_;
    cell.row = row;
    cell.column = time;
    cell.unit = "ms";
    for (const Record& record : records.all())
      if (record.case_id == row && record.ok()) cell.value = 1e3 * record.samples(time).front();
    return cell;
  }

  std::string id_;
  std::vector<Case> cases_;
  std::map<std::string, double> values_;
  std::vector<Cell> theirs_;
};

constexpr const char* attention = "device.attention_fraction";
constexpr const char* gather = "network.gather_fraction";

class CalibrationTest : public ::testing::Test {
 protected:
  /// The machine's file with another fit.
  std::string file(const std::vector<std::string>& parameters, const nlohmann::json& to,
                   const std::vector<std::string>& held_out) {
    nlohmann::json machine =
        load_json(testing::source_dir() + "/hardware/" + std::string(name) + ".json");
    machine["fit"] = {{"parameters", parameters}, {"to", to}, {"held_out", held_out}};
    const std::string path = folder_ / "machine.json";
    std::ofstream(path) << machine.dump();
    return path;
  }
  FittedMachine fitted(const std::vector<std::string>& parameters, const nlohmann::json& to,
                       const std::vector<std::string>& held_out = {}) {
    return {file(parameters, to, held_out), {&fit_, &held_out_}};
  }

  testing::Folder folder_;
  const std::map<std::string, double> truth_{{attention, 0.35}, {gather, 0.87}};
  const Case small_ = layer("small", 1024, Recompute::none),
             large_ = layer("large", 4096, Recompute::selective),
             other_ = layer("other", 2048, Recompute::none);
  const Layers fit_{"paper/fit", {small_, large_}, truth_};
  const Layers held_out_{"paper/held-out", {large_, other_}, truth_};
};

const nlohmann::json all_of_it = {{{"artifact", "paper/fit"}}};

TEST_F(CalibrationTest, FindsTheValuesThatMadeTheNumbers) {
  const FittedMachine machine = fitted({attention, gather}, all_of_it);
  const Refit found = refit(machine);
  ASSERT_THAT(found.parameters, SizeIs(2));
  for (const FittedParameter& p : found.parameters) {
    EXPECT_DOUBLE_EQ(p.refitted, truth_.at(p.key)) << p.key;
    EXPECT_DOUBLE_EQ(p.file, p.key == attention ? machine.machine().attention_fraction
                                                : machine.machine().gather_fraction);
    EXPECT_TRUE(p.differs()) << p.key;
  }
  EXPECT_TRUE(found.differs());
  EXPECT_THAT(found.cells, SizeIs(4));
  EXPECT_LT(found.rms_refitted, 1e-6);
  EXPECT_GT(found.rms_file, 1);
  double squares = 0;
  for (const auto& cell : found.cells) squares += std::pow(cell.file.error_percent().value(), 2);
  EXPECT_NEAR(found.rms_file, std::sqrt(squares / 4), 1e-9);
}

TEST_F(CalibrationTest, FitsOneCellAlone) {
  const nlohmann::json one = {
      {{"artifact", "paper/fit"}, {"row", "small"}, {"column", metric::backward_time}}};
  const Refit found = refit(fitted({gather}, one));
  ASSERT_THAT(found.cells, SizeIs(1));
  EXPECT_EQ(found.cells[0].file.row, "small");
  EXPECT_GT(std::abs(found.cells[0].file.error_percent().value()), 0.2);
  EXPECT_NEAR(found.cells[0].refitted.error_percent().value(), 0, 0.04);
}

TEST_F(CalibrationTest, SmallDifferencesAreNone) {
  FittedParameter p{"key", "1", 0.504, 0.5, 0};
  EXPECT_FALSE(p.differs());
  p.file = 0.51;
  EXPECT_TRUE(p.differs());
  p.flat = 0.02;
  EXPECT_FALSE(p.differs());
}

TEST_F(CalibrationTest, ErrorsOfWhatIsHeldOutAreTheFilesAndKnowWhatWasSeen) {
  std::vector<std::string> done;
  const auto found = held_out_errors(fitted({gather}, all_of_it, {"paper/held-out"}),
                                     [&](const std::string& id) { done.push_back(id); });
  EXPECT_THAT(done, ElementsAre("paper/held-out"));
  ASSERT_THAT(found, SizeIs(1));
  ASSERT_THAT(found[0].cells, SizeIs(4));
  double sum = 0;
  for (const auto& [cell, seen] : found[0].cells) {
    EXPECT_EQ(seen, cell.row == "large") << cell.row;
    if (!seen) sum += std::abs(cell.error_percent().value());
  }
  EXPECT_EQ(found[0].all.percent.cells, 4U);
  EXPECT_EQ(found[0].unseen.percent.cells, 2U);
  EXPECT_NEAR(found[0].unseen.percent.mean, sum / 2, 1e-12);
  EXPECT_GT(sum, 1);
  EXPECT_THAT(split_violations(found), IsEmpty());
}

TEST_F(CalibrationTest, HoldingOutWhatWasFittedIsAViolation) {
  EXPECT_THAT(split_violations(fitted({gather}, all_of_it, {"paper/held-out"}).machine().fit),
              IsEmpty());
  EXPECT_THAT(split_violations(fitted({gather}, all_of_it, {"paper/fit"}).machine().fit),
              ElementsAre(HasSubstr("paper/fit is held out")));
  const Layers same{"paper/same", {large_}, truth_};
  const FittedMachine machine(file({gather}, all_of_it, {"paper/same"}), {&fit_, &same});
  EXPECT_THAT(split_violations(machine.machine().fit), IsEmpty());
  EXPECT_THAT(split_violations(held_out_errors(machine, [](const std::string&) {})),
              ElementsAre(HasSubstr("paper/same")));
}

TEST_F(CalibrationTest, RefusesAFitThatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& parameters, const nlohmann::json& to,
                           const char* says) {
    EXPECT_THAT([&] { refit(fitted(parameters, to)); }, ThrowsMessage<InputError>(HasSubstr(says)));
  };
  refused({}, all_of_it, "nothing of it was fitted");
  refused({gather}, {{{"artifact", "paper/fti"}}}, "did you mean paper/fit");
  refused({gather}, {{{"artifact", "paper/fit"}, {"row", "huge"}}}, "row huge");
  refused({"device.speed"}, all_of_it,
          "fit.parameters has \"device.speed\", which is no number of this file");
  refused({"device.multiprocessors"}, all_of_it, "a whole number");
  refused({gather, "device.flops_f64"}, all_of_it, "device.flops_f64, on which none");
}

TEST_F(CalibrationTest, SensitivityIsWhatAnotherMachineTakes) {
  const FittedMachine machine = fitted({gather}, all_of_it, {"paper/held-out"});
  size_t done = 0;
  const Sensitivity found = sensitivity(machine, 2, [&](const std::string&) { ++done; });
  EXPECT_EQ(done, machines_of_sensitivity(machine));
  EXPECT_THAT(found.artifacts, ElementsAre("paper/fit", "paper/held-out"));
  ASSERT_EQ(found.parameters.size(), machine.machine().parameters.size());
  for (size_t i = 1; i < found.parameters.size(); ++i)
    EXPECT_GE(found.effect(found.parameters[i - 1]), found.effect(found.parameters[i]));
  const auto of = [&](const std::string& key) {
    for (const ParameterSensitivity& one : found.parameters)
      if (one.parameter.key == key) return one;
    throw std::out_of_range(key);
  };
  EXPECT_TRUE(of(gather).fitted);
  EXPECT_FALSE(of(attention).fitted);
  EXPECT_EQ(found.effect(of("device.flops_f64")), 0);
  double sum = 0;  // by hand, of what a tenth more does
  const Machine faster = machine.with({{gather, 1.1 * machine.machine().gather_fraction}});
  const std::vector<Cell> before = fit_.cells(run_on(machine.machine(), fit_, {small_, large_})),
                          after = fit_.cells(run_on(faster, fit_, {small_, large_}));
  for (size_t i = 0; i < before.size(); ++i)
    sum += 100 * (after[i].value.value() / before[i].value.value() - 1);
  EXPECT_LT(sum, -0.5);
  EXPECT_NEAR(of(gather).more.artifacts[0].longer_than(found.unchanged[0]).value(), sum / 4, 1e-9);
}

TEST_F(CalibrationTest, SensitivityLeavesOutWhatCannotBe) {
  const Sensitivity found = sensitivity(fitted({gather}, all_of_it), 1, [](const std::string&) {});
  for (const ParameterSensitivity& one : found.parameters) {
    const bool beyond = 1.1 * one.parameter.value > one.parameter.most;
    EXPECT_EQ(one.more.artifacts.empty(), beyond) << one.parameter.key;
    EXPECT_EQ(one.more.reason.empty(), !beyond) << one.parameter.key;
    EXPECT_TRUE(one.less.reason.empty()) << one.less.reason;
    EXPECT_TRUE(!one.parameter.whole || one.less.value == std::round(one.less.value));
  }
}

TEST_F(CalibrationTest, OtherPublishedValuesAreFittedAgain) {
  const std::string path = file({gather}, all_of_it, {"paper/held-out"});
  nlohmann::json machine = load_json(path);
  for (const char* group : {"device", "network"})
    for (auto& entry : machine[group]) entry.erase("others");
  const auto other = [](double value) {
    return nlohmann::json{{"value", value}, {"source", "a test"}};
  };
  machine["device"]["attention_fraction"]["others"] = {other(0.35), other(0.2), other(0.9)};
  machine["network"]["gather_fraction"]["others"] = {other(0.87)};
  std::ofstream(path) << machine.dump();
  const FittedMachine fitted(path, {&fit_, &held_out_});
  size_t done = 0;
  const Published found = published(fitted, [&](const std::string&) { ++done; });
  EXPECT_EQ(done, machines_of_published(fitted));
  ASSERT_THAT(found.others, SizeIs(4));
  // The value that made the numbers explains them, and others do not.
  EXPECT_NEAR(found.others[0].fitted.at(gather), truth_.at(gather), 1e-9);
  EXPECT_LT(found.others[0].rms, 1e-6);
  EXPECT_LT(found.others[0].held_out.at(0).errors.percent.worst, 1e-6);
  EXPECT_GT(found.file.held_out.at(0).errors.percent.mean, 0.1);
  EXPECT_GT(found.others[1].held_out.at(0).longer, found.file.held_out.at(0).longer);
  // What is fitted otherwise is not, where its value is given.
  EXPECT_THAT(found.others[3].fitted, IsEmpty());
  std::map<double, double> attentions;  // by how much longer
  for (size_t i = 0; i < 3; ++i)
    attentions[found.others[i].held_out.at(0).longer] = found.others[i].values.at(attention);
  EXPECT_EQ(found.shortest.values.at(attention), attentions.begin()->second);
  EXPECT_EQ(found.longest.values.at(attention), attentions.rbegin()->second);
  EXPECT_GT(attentions.rbegin()->first, attentions.begin()->first + 0.1);
}

/// One over a time is a time that is as much shorter.
TEST(SecondsOf, AreThoseOfTimesAndThroughputs) {
  Cell cell;
  cell.value = 4;
  const auto of = [&](const char* unit) {
    cell.unit = unit;
    return seconds_of(cell);
  };
  EXPECT_EQ(of("ms"), 4);
  EXPECT_EQ(of("s"), 4);
  EXPECT_EQ(of("seqs/s"), 0.25);
  EXPECT_EQ(of("GiB"), std::nullopt);
  EXPECT_EQ(of("%"), std::nullopt);
}

}  // namespace
}  // namespace frugal::harness
