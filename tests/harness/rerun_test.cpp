#include "harness/measure/rerun.h"

#include <gmock/gmock.h>

#include "harness/measure/interrupt.h"
#include "harness/measure/runner.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// Cases that note when they are run, and end as they are told to.
class RerunTest : public ::testing::Test {
 protected:
  class Noted : public CaseRun {
   public:
    Noted(RerunTest& test, std::string id) : test_(test), id_(std::move(id)) {}
    void observe(Record& record) override {
      test_.ran_.push_back(id_);
      if (test_.ends_.contains(id_)) test_.ends_.at(id_)();
      record.findings["run"] = std::to_string(test_.ran_.size());
    }

   private:
    RerunTest& test_;
    std::string id_;
  };

  Case noted(const std::string& id, const std::string& rounds = "") {
    return {
        .id = id,
        .workload =
            workload::Benchmark{
                .axes = {},
                .rounds = rounds,
                .make = [this, id](const Target&) { return std::make_unique<Noted>(*this, id); }},
        .on = "cpu"};
  }

  /// Runs these cases as a command does; what was run then, in its order.
  std::vector<std::string> run(const std::vector<Case>& cases, const std::string& rerun = "") {
    ran_.clear();
    RecordFile file(folder_ / "");
    Progress progress(cases.size());
    Runner runner(file, progress,
                  {.timing = {.warm_up = 0, .samples = 1, .budget = 0},
                   .command = "frugal test",
                   .rerun = {rerun}});
    const std::string before = testing::read(folder_ / "records.jsonl");
    ::testing::internal::CaptureStderr();
    try {
      records_ = runner.run("paper/table", cases).all();
    } catch (const Interrupted&) {
      records_.clear();
    }
    said_ = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(testing::read(folder_ / "records.jsonl").starts_with(before)) << "it was rewritten";
    lines_ = file.records().size();
    return ran_;
  }

  /// What the last run's records came from: the number of the case in the run that made it.
  std::string run_of(size_t i) const { return records_.at(i).findings.at("run"); }

  /// Puts another version of the last record in the place of the file's only one.
  template <class Change>
  void change_record(Change change) {
    Record record = records_.front();
    change(record);
    record.fingerprint = fingerprint_of(record);
    record.findings["run"] = "elsewhere";
    std::filesystem::remove(folder_ / "records.jsonl");
    RecordFile(folder_ / "").append(record);
  }

  testing::Folder folder_;
  std::vector<std::string> ran_;
  std::map<std::string, std::function<void()>> ends_;
  std::vector<Record> records_;
  std::string said_;
  size_t lines_ = 0;
};

TEST_F(RerunTest, RunsOnlyWhatFailedAgainAndItsLastRecordCounts) {
  const std::vector<Case> cases{noted("good"), noted("wrong"), noted("large"), noted("late"),
                                noted("left")};
  ends_["wrong"] = [] { throw WrongNumbers("w"); };
  ends_["large"] = [] { throw OutOfMemory("m", 1, 1, 1); };
  ends_["late"] = [] { throw DeadlinePassed("d"); };
  ends_["left"] = [] { throw PeerLost("p"); };
  EXPECT_EQ(run(cases).size(), 5U);
  EXPECT_THAT(run(cases), IsEmpty());
  EXPECT_THAT(said_, AllOf(HasSubstr("good on cpu: already recorded; --rerun all runs it again"),
                           HasSubstr("already recorded as oom; --rerun failed runs it again")));
  ends_.erase("wrong");
  EXPECT_THAT(run(cases, "failed"), ElementsAre("wrong", "large", "late", "left"));
  EXPECT_EQ(lines_, 9U);
  EXPECT_TRUE(records_[1].ok());
  EXPECT_EQ(records_[2].status, Status::oom);
  EXPECT_THAT(run(cases, "failed"), ElementsAre("large", "late", "left"));
}

TEST_F(RerunTest, RunsAllOrOneAgain) {
  const std::vector<Case> cases{noted("a"), noted("b"), noted("c")};
  run(cases);
  EXPECT_THAT(run(cases, "all"), ElementsAre("a", "b", "c"));
  EXPECT_EQ(lines_, 6U);
  EXPECT_THAT(run(cases, "b"), ElementsAre("b"));
  EXPECT_EQ(run_of(0), "1");
  EXPECT_EQ(run_of(1), "1");
  EXPECT_EQ(run_of(2), "3");
  EXPECT_EQ(lines_, 7U);
}

TEST_F(RerunTest, RunsWhatWasSkippedAgainOnlyWithAll) {
  Case skipped = noted("s");
  skipped.skip = "not here";
  run({skipped});
  run({skipped}, "failed");
  EXPECT_EQ(lines_, 1U);
  run({skipped}, "all");
  EXPECT_EQ(lines_, 2U);
}

/// Two sizes that are too large may have the same one behind them.
TEST_F(RerunTest, RunsACaseOnceHoweverOftenItStandsThere) {
  Case one = noted("one"), two = noted("two");
  one.smaller = two.smaller = {noted("small")};
  ends_["one"] = ends_["two"] = [] { throw OutOfMemory("m", 1, 1, 1); };
  run({one, two});
  EXPECT_THAT(run({one, two}, "all"), ElementsAre("one", "two", "small"));
  EXPECT_THAT(run({one, two}, "small"), ElementsAre("small"));
}

TEST_F(RerunTest, WhatIsTimedByTurnsIsRunAgainTogether) {
  const std::vector<Case> cases{noted("a", "r"), noted("alone"), noted("b", "r")};
  ends_["b"] = [] { throw WrongNumbers("w"); };
  run(cases);
  EXPECT_THAT(run(cases, "failed"), ElementsAre("a", "b"));
  EXPECT_THAT(run(cases, "a"), ElementsAre("a", "b"));
  EXPECT_EQ(records_[0].rounds, records_[2].rounds);
  EXPECT_THAT(run(cases), IsEmpty());
}

TEST_F(RerunTest, WhatWasInterruptedGoesOnWithoutTheFlag) {
  const std::vector<Case> cases{noted("a"), noted("b"), noted("c")};
  run(cases);
  ends_["b"] = [] { throw Interrupted(); };
  EXPECT_THAT(run(cases, "all"), ElementsAre("a", "b"));
  EXPECT_EQ(lines_, 5U);
  ends_.clear();
  EXPECT_THAT(run(cases), ElementsAre("b"));
  EXPECT_THAT(run(cases), IsEmpty());
}

TEST_F(RerunTest, ItsOwnInterruptedRecordIsNotAnothers) {
  ends_["a"] = [] { throw Interrupted(); };
  run({noted("a")});
  EXPECT_EQ(lines_, 1U);
  ends_.clear();
  EXPECT_THAT(run({noted("a")}), ElementsAre("a"));
  EXPECT_THAT(said_, Not(HasSubstr("frugal: ")));
}

TEST_F(RerunTest, AnotherBuildsRecordIsKeptAndNotTaken) {
  const std::vector<Case> cases{noted("a")};
  run(cases);
  change_record([](Record& r) {
    r.program = hash_of("another build");
    r.environment = R"({"build": {"commit": "0123456789abcdef", "dirty": true}})";
  });
  EXPECT_THAT(run(cases), ElementsAre("a"));
  EXPECT_THAT(said_, HasSubstr("frugal: cases that were recorded by another build (commit "
                               "0123456789ab with changes) are run again; those records are kept"));
  EXPECT_EQ(lines_, 2U);
  EXPECT_EQ(run_of(0), "1");
  EXPECT_THAT(run(cases), IsEmpty());
  EXPECT_THAT(said_, Not(HasSubstr("another build")));
  Record newer = records_.front();
  newer.program = hash_of("another build");
  newer.fingerprint = fingerprint_of(newer);
  RecordFile(folder_ / "").append(newer);
  EXPECT_THAT(run(cases), IsEmpty()) << "its own record is there, though it is not the last";
  EXPECT_EQ(run_of(0), "1");
  EXPECT_THAT(run(cases, "all"), ElementsAre("a"));
  EXPECT_THAT(said_, Not(HasSubstr("another build")));
}

TEST_F(RerunTest, AnotherMachinesRecordIsKeptAndNotTaken) {
  const std::vector<Case> cases{noted("a")};
  run(cases);
  change_record([](Record& r) { r.device = "another processor, 1 threads"; });
  EXPECT_THAT(run(cases), ElementsAre("a"));
  EXPECT_THAT(said_, HasSubstr("on another device (another processor, 1 threads)"));
  EXPECT_EQ(lines_, 2U);
  change_record([](Record& r) { r.machine = hash_of("another data sheet"); });
  EXPECT_THAT(run(cases), ElementsAre("a"));
  EXPECT_THAT(said_, HasSubstr("with other values of their machine"));
}

/// It is said once, whatever number of cases there are; and another setting is no other machine.
TEST_F(RerunTest, SaysOnceWhatAnotherBuildRecorded) {
  const std::vector<Case> cases{noted("a"), noted("b")};
  run(cases);
  std::vector<Record> records = records_;
  for (Record& record : records) {
    record.program = hash_of("another build");
    record.fingerprint = fingerprint_of(record);
  }
  std::ofstream(folder_ / "records.jsonl") << to_text(records);
  run(cases);
  const size_t first = said_.find("by another build");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said_.find("by another build", first + 1), std::string::npos) << said_;
  change_record([](Record& r) {
    r.options["steps"] = "7";
    r.program = hash_of("another build");
  });
  run(cases);
  EXPECT_THAT(said_, Not(HasSubstr("by another build")));
}

TEST_F(RerunTest, ANameThatNoCaseHasIsAnErrorWithThoseThereAre) {
  Case large = noted("22B/baseline"), titled = noted("gpt-tiny");
  large.smaller = {noted("22B/smaller")};
  titled.title = "seed 2";
  const std::vector<std::vector<Case>> cases{{large}, {titled}};
  for (const char* known : {"", "failed", "all", "22B/baseline", "22B/smaller", "seed 2"})
    EXPECT_NO_THROW(Rerun{known}.check(cases)) << known;
  EXPECT_THAT([&] { Rerun{"22B/basline"}.check(cases); },
              ThrowsMessage<InputError>(AllOf(
                  HasSubstr("--rerun: there is no case \"22B/basline\""),
                  HasSubstr("did you mean 22B/baseline? give failed, all, or one of 22B/baseline, "
                            "22B/smaller, seed 2"))));
  EXPECT_THAT([&] { Rerun{"faild"}.check(cases); },
              ThrowsMessage<InputError>(HasSubstr("did you mean failed?")));
  EXPECT_THAT([&] { Rerun{"gpt-tiny"}.check(cases); },
              ThrowsMessage<InputError>(HasSubstr("no case \"gpt-tiny\"")));
  std::vector<Case> many;
  for (int i = 0; i < 30; ++i) many.push_back(noted("case " + std::to_string(i)));
  EXPECT_THAT([&] { Rerun{"xyz"}.check({many}); },
              ThrowsMessage<InputError>(HasSubstr("case 15, and 14 others")));
}

}  // namespace
}  // namespace frugal::harness
