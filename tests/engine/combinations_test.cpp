#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "engine/config_rules.h"
#include "engine/program/behaviour.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

// Everything that the engine can do, in combinations drawn at random: each is refused in one line,
// or it is the serial run. scripts/combinations.sh runs as many as one wants.
namespace frugal::engine {
namespace {

using testing::worst_error;

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// The same numbers everywhere.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  const ScheduleKind& schedule() {
    return ScheduleKind::all()[random_() % ScheduleKind::all().size()];
  }
  LayerModules modules() {
    static const std::vector<LayerModules> sets = LayerModules::all_sets();
    return sets[random_() % sets.size()];
  }
  /// One time in so many.
  bool once_in(uint64_t times) { return random_() % times == 0; }

 private:
  std::mt19937_64 random_;
};

RunConfig drawn_model(Draw& draw) {
  RunConfig c = draw.one_of(
      {testing::small_gpt, testing::small_bert, testing::small_llama, testing::small_gemma})();
  c.model.layers = draw.one_of<int64_t>({2, 4, 8});
  c.model.hidden = draw.one_of<int64_t>({32, 64});
  if (c.model.head_width > 0) c.model.head_width = c.model.hidden / c.model.heads * 2;
  c.model.sequence = draw.one_of<int64_t>({16, 24});
  if (c.model.positions == PositionKind::learned) c.model.tied = !draw.once_in(4);
  c.micro_batch = draw.one_of<int64_t>({1, 2});
  c.type = draw.one_of({DType::f64, DType::f32});
  return c;
}

/// Which ranks have what.
void draw_layout(Draw& draw, RunConfig& c) {
  c.tensor_parallel = draw.one_of({1, 1, 2, 4});
  c.sequence_parallel = draw.once_in(2);
  c.pipeline_parallel = draw.one_of({1, 1, 2, 4});
  c.data_parallel = draw.one_of({1, 2, 3, 4});
  c.context_parallel = draw.one_of({1, 1, 1, 2, 4});
  c.context = draw.one_of({ContextKind::ulysses, ContextKind::ring, ContextKind::zigzag});
  if (c.context != ContextKind::ulysses) c.ulysses_size = draw.one_of({0, 2});
  if (c.context_parallel > 1) c.model.dropout = 0;
  if (c.pipeline_parallel > 1) c.schedule = draw.schedule();
  if (c.schedule.has_chunks)
    c.chunks = c.schedule.chunks > 0 ? c.schedule.chunks : draw.one_of({1, 2});
  if (c.pipeline_parallel > 1 && draw.once_in(3)) {
    c.stage_layers.assign(static_cast<size_t>(c.pipeline_parallel * c.chunks), 1);
    c.stage_layers[draw.one_of<size_t>({0, 1})] = 3;
    c.model.layers = c.pipeline_parallel * c.chunks + 2;
  }
  c.microbatches = draw.one_of<int64_t>({1, 2, 2, 4, 8});
  c.shard = draw.one_of({Shard::none, Shard::optimizer, Shard::gradients, Shard::weights});
  if (c.shard != Shard::none && draw.once_in(2)) c.shard_size = 2;
}

/// What is kept, where, and until when.
void draw_memory(Draw& draw, RunConfig& c) {
  c.attention = draw.one_of({AttentionKind::fused, c.attention});
  c.recompute = draw.one_of(
      {Recompute::none, Recompute::none, Recompute::selective, Recompute::full, Recompute::stage});
  if (c.recompute == Recompute::selective) c.recompute_modules = draw.modules();
  c.recompute_group = draw.one_of<int64_t>({1, 1, 2, 3});
  c.recompute_layers = draw.one_of<int64_t>({0, 0, 1, 3});
  c.stored_masks = draw.once_in(3);
  c.keep_outputs = draw.once_in(3);
  c.kept_microbatches = draw.once_in(4) ? 1 : 0;
  c.mlp_chunks = draw.one_of<int64_t>({1, 1, 3, RunConfig::by_rule});
  c.head_chunks = draw.one_of<int64_t>({1, 1, 3, RunConfig::by_rule});
  c.head_tiles = draw.one_of<int64_t>({1, 1, 3});
  c.step_in_backward = draw.once_in(6);
  c.offload = draw.once_in(4);
  c.offload_optimizer = draw.once_in(3);
  c.overwrite_gradients = draw.once_in(3);
}

/// What numbers are stored and summed as, and which are drawn.
void draw_numbers(Draw& draw, RunConfig& c) {
  if (draw.once_in(4)) c.type = DType::bf16;
  c.precision = draw.one_of({Precision::mixed, Precision::mixed, Precision::pure});
  c.narrow_reduction = draw.once_in(3);
  c.narrow_logits = draw.once_in(4);
  c.seed = draw.one_of<uint64_t>({1, 7, 1ULL << 40});
}

/// What another program keeps and copies besides, of all that a device that computes can have.
void draw_program(Draw& draw, RunConfig& c) {
  if (!draw.once_in(3)) return;
  std::vector<std::string_view> names;
  for (const Behaviour& behaviour : behaviours()) {
    if (!behaviour.real || !draw.once_in(8)) continue;
    behaviour.put(c.program, true);
    names.push_back(behaviour.name);
  }
  c.program.name = fmt::format("{}", fmt::join(names, "+"));
}

/// What the combination must equal: the same model without any of it. A schedule that does not
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

std::string text_of(const RunConfig& c) {
  return fmt::format(
      "L {} h {} s {} b {} {} {} {} tied {}; t {}{} p {} ({}) v {} {} w {} c {} {} u {} m {}; "
      "shard {} "
      "{}; {} "
      "recompute {} {} {} {} masks {} outputs {} kept {} parts {} {} {} step-in-backward {} "
      "offload "
      "{} {} "
      "overwrite {} {} narrow {} {} seed {} program {}",
      c.model.layers, c.model.hidden, c.model.sequence, c.micro_batch, name_of(c.type),
      c.model.positions == PositionKind::learned ? (c.model.causal ? "gpt" : "bert")
                                                 : (c.model.post_norms ? "gemma" : "llama"),
      c.model.dropout, c.model.tied, c.tensor_parallel, c.sequence_parallel ? "s" : "",
      c.pipeline_parallel, fmt::join(c.stage_layers, " "), c.chunks, c.schedule.name,
      c.data_parallel, c.context_parallel, name_of(c.context), c.ulysses_size, c.microbatches,
      name_of(c.shard), c.shard_size, name_of(c.attention), name_of(c.recompute),
      name_of(c.recompute_modules), c.recompute_group, c.recompute_layers, c.stored_masks,
      c.keep_outputs, c.kept_microbatches, c.mlp_chunks, c.head_chunks, c.head_tiles,
      c.step_in_backward, c.offload, c.offload_optimizer, c.overwrite_gradients,
      name_of(c.precision), c.narrow_reduction, c.narrow_logits, c.seed, name_of(c.program));
}

struct Trained {
  std::vector<StepResult> steps;
  HostTensors end;
};

/// With one thread for each rank, so that the thread sanitizer sees ranks alone. By momentum: Adam
/// makes whole steps of gradients that are nothing but rounding, as those of the keys' biases are.
Trained trained(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 1);
  const TrainConfig train{.optimizer = {.kind = OptimizerKind::momentum,
                                        .learning_rate = 0.05,
                                        .clip = config.step_in_backward ? 0.0 : 1e3}};
  Trainer trainer(*cluster, config, train);
  Trained all{trainer.run({random_batch(config, 0), random_batch(config, 1)}), {}};
  all.end = trainer.snapshot(random_batch(config, 2)[0]);
  return all;
}

/// bfloat16 is rounded where a combination stores it, which the serial run does elsewhere: what it
/// computes is about the same, and a sum that lacks a part is not.
void expect_about_serial(const RunConfig& c, const Trained& parallel, const Trained& serial) {
  constexpr double rounding = 0x1p-8;  // of an element
  for (size_t i = 0; i < serial.steps.size(); ++i) {
    const StepResult &one = parallel.steps[i], &other = serial.steps[i];
    EXPECT_NEAR(one.loss / other.loss, 1, rounding) << text_of(c);
    EXPECT_NEAR(one.gradient_norm / other.gradient_norm, 1, rounding) << text_of(c);
  }
}

void expect_serial(const RunConfig& c) {
  const Trained parallel = trained(c), serial = trained(serial_of(c));
  if (c.type == DType::bf16) return expect_about_serial(c, parallel, serial);
  const double tolerance = c.type == DType::f64 ? 1e-12 : 1e-5;
  const auto worst = worst_error(parallel.end, serial.end);
  EXPECT_LT(worst.value, tolerance) << worst.tensor << ": " << text_of(c);
  for (size_t i = 0; i < serial.steps.size(); ++i)
    EXPECT_NEAR(parallel.steps[i].loss / serial.steps[i].loss, 1, tolerance) << text_of(c);
}

TEST(Combinations, AreRefusedOrEqualTheSerialRun) {
  const int64_t count = from_environment("FRUGAL_COMBINATIONS", 30);
  const auto seed = static_cast<uint64_t>(from_environment("FRUGAL_SEED", 1));
  Draw draw(seed);
  std::map<std::string, int> refused;
  int64_t run = 0;
  while (run < count && !HasFailure()) {
    RunConfig c = drawn_model(draw);
    draw_layout(draw, c);
    draw_memory(draw, c);
    draw_numbers(draw, c);
    draw_program(draw, c);
    try {
      c.validate();
    } catch (const kernels::InputError& e) {
      const std::string line = e.what();
      EXPECT_FALSE(line.empty());
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      ++refused[line];
      continue;
    }
    ++run;
    expect_serial(c);
  }
  int all = 0;
  for (const auto& [line, times] : refused) {
    all += times;
    if (count > 30) fmt::print("{:5} refused: {}\n", times, line);
  }
  fmt::print("{} combinations from seed {} are the serial run; {} were refused, by {} lines\n", run,
             seed, all, refused.size());
}

}  // namespace
}  // namespace frugal::engine
