#include "harness/compare/pairing.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/harness/comparison.h"

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::measured;
using testing::processes;
using ::testing::ThrowsMessage;

using RecordList = std::vector<Record>;

Pairing paired(const RecordList& base, const RecordList& candidate,
               std::vector<std::string> across = {}) {
  return pair_up(base, candidate, Across(std::move(across), base, candidate));
}

TEST(Pairing, HasEveryProcessOfACase) {
  const RecordList base = processes(measured("64", {}), {{1}, {2}}),
                   candidate = {measured("64", {3})};
  const Pairing pairing = paired(base, candidate);
  ASSERT_EQ(pairing.pairs.size(), 1);
  EXPECT_EQ(pairing.pairs[0].base.runs.size(), 2);
  EXPECT_EQ(pairing.pairs[0].candidate.runs[0], &candidate[0]);
}

TEST(Pairing, TakesTheProgramForWhatIsComparedAndTheLoadForNoCondition) {
  Record other = measured("64", {1});
  other.program = "another";
  other.environment = R"({"processor": {"governor": "performance"}, "load_average": [9, 9, 9],
                          "build": {"commit": "def"}})";
  other.options["samples"] = "40";
  const RecordList base = {measured("64", {1})}, candidate = {other};
  EXPECT_EQ(paired(base, candidate).pairs.size(), 1);
  const auto found = differences(program_of(base[0]), program_of(candidate[0]));
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0], (Difference{"build.commit", "abc", "def"}));
  EXPECT_EQ(found[1].name, "program");
}

TEST(Pairing, RefusesWhatDiffersInAnythingElseAndSaysWhat) {
  const RecordList base = {measured("64", {1})};
  const auto refused = [&](auto change, const std::string& says) {
    RecordList candidate = base;
    change(candidate[0]);
    EXPECT_THAT([&] { paired(base, candidate); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("bench/gemm 64: "), HasSubstr(says))));
  };
  refused([](Record& r) { r.device = "another"; },
          "device is a processor, 2 threads in the base and another in the candidate; compare runs "
          "under the same conditions, or give --across device where");
  refused([](Record& r) { r.options["threads"] = "1"; }, "threads is 2 in the base and 1");
  refused([](Record& r) { r.options["FRUGAL_TF32"] = "1"; }, "FRUGAL_TF32 is none in the base");
  refused([](Record& r) { r.scale = 4; }, "scale is 1 in the base and 1/4");
  refused([](Record& r) { r.machine = "0123"; }, "machine is none");
  refused([](Record& r) { r.config = testing::tiny(); }, "more");
  refused([](Record& r) { r.modelled = {"m", "h"}; }, "communication is real");
  refused([](Record& r) { r.environment = R"({"processor": {"governor": "powersave"}})"; },
          "processor.governor is performance in the base and powersave");
}

TEST(Pairing, RefusesGpusThatAreSetOtherwiseAndNotThoseThatAreWarmer) {
  const auto with = [](const std::string& degrees, const std::string& cap,
                       const std::string& driver) {
    Record record = measured("64", {1});
    record.environment = R"({"gemm_algorithms": {"timed": )" + degrees +
                         R"(}, "gpu_state": {"driver": ")" + driver +
                         R"(", "begin": [{"temperature_celsius": )" + degrees +
                         R"(, "power_cap_watts": )" + cap + R"(}], "end": null}})";
    return RecordList{record};
  };
  const RecordList base = with("30", "700", "580");
  EXPECT_EQ(paired(base, with("60", "700", "580")).pairs.size(), 1);
  EXPECT_THAT([&] { paired(base, with("30", "500", "580")); },
              ThrowsMessage<InputError>(HasSubstr("gpu_state.0.power_cap_watts is 700")));
  EXPECT_THAT([&] { paired(base, with("30", "700", "570")); },
              ThrowsMessage<InputError>(HasSubstr("gpu_state.driver is 580")));
}

TEST(Pairing, NeverComparesVirtualNumbersWithMeasuredOnes) {
  const RecordList base = {measured("64", {1})};
  RecordList candidate = base;
  candidate[0].source = Source::simulated;
  EXPECT_THAT([&] { paired(base, candidate); },
              ThrowsMessage<InputError>(HasSubstr("never virtual numbers with measured ones")));
  EXPECT_THAT([&] { paired(base, candidate, {"source"}); },
              ThrowsMessage<InputError>(HasSubstr("--across source: ")));
}

TEST(Pairing, IsAcrossWhatTheComparisonIsAbout) {
  Record base = measured("64", {1});
  base.config = testing::tiny();
  Record candidate = base;
  candidate.config.recompute = Recompute::full;
  candidate.config.model.layers = 2;
  EXPECT_THROW(paired({base}, {candidate}, {"recompute"}), InputError);
  const RecordList of_base = {base}, of_candidate = {candidate};
  EXPECT_EQ(paired(of_base, of_candidate, {"recompute", "model"}).pairs.size(), 1);
  EXPECT_THAT([&] { paired(of_base, of_candidate, {"recompte"}); },
              ThrowsMessage<InputError>(HasSubstr("did you mean recompute")));
}

TEST(Pairing, FindsEachConfigurationOfSeveral) {
  Record none = measured("22B", {1}), full = none;
  none.config = full.config = testing::tiny();
  full.config.recompute = Recompute::full;
  const RecordList base = {none, full}, candidate = {full, none};
  const Pairing pairing = paired(base, candidate);
  ASSERT_EQ(pairing.pairs.size(), 2);
  EXPECT_EQ(pairing.pairs[0].which, "recompute none");
  EXPECT_EQ(pairing.pairs[1].which, "recompute full");
  EXPECT_EQ(pairing.pairs[1].candidate.runs[0], &candidate[0]);
  EXPECT_THAT([&] { paired({none}, candidate, {"recompute"}); },
              ThrowsMessage<InputError>(HasSubstr("2 cases of the candidate go with it")));
}

TEST(Pairing, NamesCasesThatOneSideLacks) {
  const RecordList base = {measured("64", {1}), measured("128", {1})},
                   candidate = {measured("64", {1}), measured("256", {1})};
  const Pairing pairing = paired(base, candidate);
  EXPECT_THAT(pairing.only_base, ElementsAre("bench/gemm 128"));
  EXPECT_THAT(pairing.only_candidate, ElementsAre("bench/gemm 256"));
  EXPECT_THAT([&] { paired({measured("64", {1})}, {measured("256", {1})}); },
              ThrowsMessage<InputError>(HasSubstr("no case is in both")));
}

TEST(Pairing, LeavesOutEarlierProgramsAndRunsThatWereNotFinished) {
  Record early = measured("64", {1}), late = early, interrupted = early;
  early.program = "earlier";
  interrupted.status = Status::interrupted;
  const RecordList base = {early, late, interrupted}, candidate = {late};
  const Pairing pairing = paired(base, candidate);
  EXPECT_THAT(pairing.pairs.at(0).base.runs, ElementsAre(&base[1]));
  EXPECT_THAT(pairing.left_out,
              ElementsAre("1 run of bench/gemm 64 in the base: by an earlier program"));
}

TEST(Pairing, SeesWhetherProcessesRanByTurns) {
  const RecordList base = processes(measured("64", {}), {{1}, {1}, {1}}, 0, 10);
  const auto by_turns = [&](int first, int every) {
    const RecordList candidate = processes(measured("64", {}), {{1}, {1}, {1}}, first, every);
    return paired(base, candidate).pairs.at(0).by_turns;
  };
  EXPECT_TRUE(by_turns(3, 10));
  EXPECT_TRUE(by_turns(3, 9));     // the candidate is the first of the last turn
  EXPECT_FALSE(by_turns(30, 10));  // one after the other
  EXPECT_FALSE(by_turns(3, 3));
}

TEST(Pairing, LeavesOutARunOfNoTurnWhereThereAreTurnsEnough) {
  const std::vector<std::vector<double>> six(6, {1}), seven(7, {1});
  const RecordList base = processes(measured("64", {}), seven, 0),
                   candidate = processes(measured("64", {}), six, 15);
  const Pairing pairing = paired(base, candidate);  // b, b c, b c, ...
  const CasePair& pair = pairing.pairs.at(0);
  EXPECT_TRUE(pair.by_turns);
  EXPECT_EQ(pair.base.runs.size(), 6);
  EXPECT_EQ(pair.base.runs.front(), &base[1]);
  EXPECT_THAT(pairing.left_out, ElementsAre("1 run of bench/gemm 64 in the base: of no turn"));
  // Of five turns there is no interval: then all runs count.
  const RecordList five(candidate.begin(), candidate.end() - 1);
  const Pairing all = paired(base, five);
  EXPECT_FALSE(all.pairs.at(0).by_turns);
  EXPECT_EQ(all.pairs.at(0).base.runs.size(), 7);
}

}  // namespace
}  // namespace frugal::harness
