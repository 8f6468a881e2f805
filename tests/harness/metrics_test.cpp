// Every metric that a record can have: its unit, and that it is that quantity.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/train/module_run.h"
#include "engine/train/trainer.h"
#include "harness/measure/runner.h"
#include "harness/measure/runs/training.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

constexpr const char* simulated = "virtual:a100-selene";

struct Unit {
  const char* metric;
  const char* unit;
  double most = INFINITY;  ///< of a sample
};
/// All of namespace metric.
constexpr Unit units[] = {{metric::forward_time, "s"},
                          {metric::backward_time, "s"},
                          {metric::step_time, "s"},
                          {metric::computation_time, "s"},
                          {metric::communication_time, "s"},
                          {metric::bubble_time, "s"},
                          {metric::longest_sequence, "tokens"},
                          {metric::lengths_refused, "1"},
                          {metric::gradient_norm, "1"},
                          {metric::last_word_accuracy, "1", 1},
                          {metric::last_letter_accuracy, "1", 1}};

double sum(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0);
}

/// A record, and the seconds that this machine took to make it.
struct Made {
  Record record;
  double elapsed = 0;
};

class Metrics : public ::testing::Test {
 protected:
  Made made(const Case& c) {
    return timed([&] {
      RecordFile file(folder_ / "");
      Progress progress(1);
      Runner runner(
          file, progress,
          {.timing = {.warm_up = 1, .samples = 10, .budget = 0}, .command = "frugal test"});
      return runner.run("paper/table", {c}).all().front();
    });
  }

  /// A model trained on the processor, on a text whose last words it then tells.
  Made trained_on_text(int64_t steps) {
    std::string bytes;
    while (bytes.size() < 8000) bytes += "mene tekel upharsin ";
    TrainingRun run;
    run.config = testing::tiny();
    run.config.type = DType::f64;
    run.config.model.sequence = 32;
    run.config.model.vocabulary = 260;
    run.train.steps = steps;
    run.train.optimizer.learning_rate = 1e-2;
    run.last_words = 4;
    run.text.emplace(bytes, run.config);
    return timed([&] {
      const auto target = make_target({.on = "cpu"});
      Record record;
      train(run, *target, record, [](int64_t /*step*/, const std::string& /*outcome*/) {});
      return record;
    });
  }

 private:
  template <class Make>
  Made timed(const Make& make) {
    const auto start = std::chrono::steady_clock::now();
    Record record = make();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(record.status, Status::ok) << record.reason;
    return {std::move(record), elapsed.count()};
  }

  testing::Folder folder_;
};

const Training three_steps{.train = {.optimizer = {}, .steps = 3}};

Case case_of(const Workload& observed, const std::string& on) {
  Case c{.id = "c", .config = testing::tiny(), .workload = observed, .on = on};
  if (on == "cpu") c.config.type = DType::f64;  // whose measured peak is that of small products
  return c;
}

TEST_F(Metrics, HaveTheUnitsThatTheirNamesStandFor) {
  std::set<std::string> seen;
  const auto check = [&](const Made& m) {
    for (const auto& [name, metric] : m.record.metrics) {
      const auto* const known = std::ranges::find_if(
          units, [&, &name = name](const Unit& u) { return u.metric == name; });
      ASSERT_NE(known, std::end(units)) << name;
      EXPECT_EQ(metric.unit, known->unit) << name;
      for (const double sample : metric.samples) {
        EXPECT_TRUE(std::isfinite(sample) && sample >= 0 && sample <= known->most) << name;
        seen.insert(name);
      }
    }
    // Seconds, and none of them twice.
    double seconds = 0;
    for (const char* name : {metric::forward_time, metric::backward_time, metric::step_time})
      seconds += sum(m.record.samples(name));
    if (m.record.on != simulated) {
      EXPECT_LE(seconds, m.elapsed) << m.record.what;
    }
  };
  for (const char* on : {"cpu", simulated})
    for (const Workload& observed : {Workload(workload::ModuleTime{}), Workload(three_steps)})
      check(made(case_of(observed, on)));
  check(made(case_of(workload::LongestSequence{}, simulated)));
  check(trained_on_text(3));
  Case lone = case_of(three_steps, "cpu");
  lone.config.pipeline_parallel = 2;
  lone.config.model.layers = 2;
  lone.lone_rank = "h200-hgx";
  check(made(lone));
  EXPECT_EQ(seen.size(), std::size(units));
}

TEST_F(Metrics, WordsAndLettersAreAllToldByAModelThatHasLearnedThem) {
  const Record record = trained_on_text(1500).record;
  EXPECT_EQ(record.samples(metric::last_word_accuracy), std::vector<double>{1});
  EXPECT_EQ(record.samples(metric::last_letter_accuracy), std::vector<double>{1});
}

/// On a virtual clock: what the trainer and the module themselves say, but for the rounding of a
/// clock that has gone on.
TEST_F(Metrics, TimesAreTheClocks) {
  const auto expect_same = [](const std::vector<double>& samples, double seconds) {
    EXPECT_GT(seconds, 0);
    EXPECT_NEAR(sum(samples), seconds, 1e-9 * seconds);
  };
  const auto place = make_target({.on = simulated});
  const Target& target = *place;
  const Case training = case_of(three_steps, simulated);
  const auto cluster = target.cluster(training.config);
  Trainer trainer(*cluster, training.config, three_steps.train);
  const Batch batch(static_cast<size_t>(training.config.batch_microbatches()));
  double steps = 0;
  for (int64_t i = 0; i < three_steps.train.steps; ++i) steps += trainer.step(batch).seconds;
  expect_same(made(training).record.samples(metric::step_time), steps);

  const Case module = case_of(workload::ModuleTime{}, simulated);
  const auto alone = target.cluster(module.config);
  const ModuleTime time = ModuleRun(*alone).time();
  const Record record = made(module).record;
  expect_same(record.samples(metric::forward_time), time.forward);
  expect_same(record.samples(metric::backward_time), time.backward);
}

}  // namespace
}  // namespace frugal::harness
