#include "tests/combinations/serial.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "kernels/support/error.h"
#include "tests/combinations/draw.h"
#include "tests/engine/support.h"

namespace frugal::testing {
namespace {

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// Run that the combination must equal: the same model without any of it. A schedule that does not
/// flush computes with other weights than the serial run, and so is beside itself; where that
/// depends on how many microbatches a replica has, they stay.
RunConfig serial_of(const RunConfig& c) {
  RunConfig serial;
  serial.model = c.model;
  serial.type = c.type;
  serial.precision = c.precision;
  serial.narrow_logits = c.narrow_logits;
  serial.attention = c.attention;
  serial.micro_batch = c.micro_batch;
  serial.seed = c.seed;
  serial.microbatches = c.batch_microbatches();
  if (c.schedule.flushes) return serial;
  serial.schedule = c.schedule;
  serial.pipeline_parallel = c.pipeline_parallel;
  serial.stage_layers = c.stage_layers;
  serial.microbatches = c.microbatches;
  serial.data_parallel = c.data_parallel;
  return serial;
}

struct Trained {
  std::vector<StepResult> steps;
  HostTensors end;
};

/// Some are clipped in every step, others in none.
double clip_of(const RunConfig& c) {
  if (c.step_in_backward) return 0;
  return c.seed == 7 ? 0.1 : 1e3;
}

/// Trains by momentum: Adam makes whole steps of gradients that are nothing but rounding, as those
/// of the keys' biases are.
Trained trained(const CombinationsOn& on, const RunConfig& config, double clip) {
  const auto cluster = on.cluster(config);
  const TrainConfig train{
      .optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 0.05, .clip = clip}};
  Trainer trainer(*cluster, config, train);
  Trained all{trainer.run({random_batch(config, 0), random_batch(config, 1)}), {}};
  all.end = trainer.snapshot(random_batch(config, 2)[0]);
  return all;
}

/// Expects a value within a part of another. A step that hides no token has no loss.
void expect_near(double actual, double expected, double part, const RunConfig& c) {
  EXPECT_NEAR(actual, expected, part * std::abs(expected)) << text_of(c);
}

/// bfloat16 is rounded where a combination stores it, which the serial run does elsewhere: what it
/// computes is about the same, and a sum that lacks a part is not.
void expect_about_serial(const RunConfig& c, const Trained& parallel, const Trained& serial) {
  constexpr double rounding = 0x1p-8;  // of an element
  for (size_t i = 0; i < serial.steps.size(); ++i) {
    const StepResult &one = parallel.steps[i], &other = serial.steps[i];
    expect_near(one.loss, other.loss, rounding, c);
    expect_near(one.gradient_norm, other.gradient_norm, rounding, c);
  }
}

void expect_serial(const CombinationsOn& on, const RunConfig& c) {
  const double clip = clip_of(c);
  const Trained parallel = trained(on, c, clip), serial = trained(on, serial_of(c), clip);
  if (c.type == DType::bf16) return expect_about_serial(c, parallel, serial);
  const double tolerance = c.type == DType::f64 ? 1e-12 : 1e-5;
  const auto worst = worst_error(parallel.end, serial.end);
  EXPECT_LT(worst.value, tolerance) << worst.tensor << ": " << text_of(c);
  for (size_t i = 0; i < serial.steps.size(); ++i)
    expect_near(parallel.steps[i].loss, serial.steps[i].loss, tolerance, c);
}

/// Reason why it is refused; empty where it has run, well or not.
std::string refusal(const CombinationsOn& on, const RunConfig& c) {
  try {
    c.validate();
    expect_serial(on, c);
    return "";
  } catch (const kernels::InputError& e) {
    const std::string line = e.what();
    EXPECT_FALSE(line.empty()) << text_of(c);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what() << ": " << text_of(c);
    return "";
  }
}

}  // namespace

void expect_combinations_equal_serial(const CombinationsOn& on, int64_t count) {
  constexpr int64_t few = 100;  // of fewer their refusals are not listed
  constexpr int most_failures = 10;
  count = from_environment("FRUGAL_COMBINATIONS", count);
  const auto seed = static_cast<uint64_t>(from_environment("FRUGAL_SEED", 1));
  Draw draw(seed);
  std::map<std::string, int> refused;
  int64_t run = 0;
  const auto* const result = ::testing::UnitTest::GetInstance()->current_test_info()->result();
  while (run < count && result->total_part_count() < most_failures) {
    RunConfig c = draw.combination();
    on.adapt(c);
    const std::string why = refusal(on, c);
    if (why.empty())
      ++run;
    else
      ++refused[why];
  }
  int all = 0;
  for (const auto& [line, times] : refused) {
    all += times;
    if (count >= few) fmt::print("{:5} refused: {}\n", times, line);
  }
  fmt::print("{} combinations from seed {} {} the serial run; {} were refused, by {} lines\n", run,
             seed, result->Passed() ? "are" : "are not all", all, refused.size());
}

}  // namespace frugal::testing
