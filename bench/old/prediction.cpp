// How well does a virtual machine predict the machine that it was made of? Operations are timed one
// by one in small models, and layers and training steps of other models as a whole, all by turns in
// one run. A machine is made of the operations' times (`frugal peak --machine` makes the same), the
// layers and steps are executed on it virtually, and both times stand side by side. No layer or
// step that is predicted was seen when the machine was made.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "bench/report.h"
#include "engine/train/module_run.h"
#include "engine/train/trainer.h"
#include "harness/calibrate/own_machine.h"
#include "harness/measure/operation_times.h"
#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"
#include "harness/place/environment.h"
#include "harness/place/target.h"
#include "harness/settings/config_json.h"
#include "harness/settings/models.h"
#include "kernels/cpu/waiting.h"
#include "kernels/support/error.h"

namespace frugal::bench {
namespace {

/// A layer, forward and backward, or a training step, on any cluster.
class Run {
 public:
  Run(std::unique_ptr<Cluster> cluster, const RunConfig& config, bool layer)
      : cluster_(std::move(cluster)) {
    if (layer) {
      layer_.emplace(*cluster_);
    } else {
      trainer_.emplace(*cluster_, config, TrainConfig{});
      batch_ = random_batch(config, 0);
    }
  }
  double seconds() {
    if (trainer_) return trainer_->step(batch_).seconds;
    const ModuleTime time = layer_->time();
    return time.forward + time.backward;
  }

 private:
  std::unique_ptr<Cluster> cluster_;
  std::optional<ModuleRun> layer_;
  std::optional<Trainer> trainer_;
  Batch batch_;
};

struct Case {
  std::string name;
  bool layer = true;
  RunConfig config;
  std::shared_ptr<Run> run = {};
  std::vector<double> seconds = {};
  double predicted = 0, by_peaks = 0;
};

RunConfig with(const ModelConfig& model, int64_t batch, Recompute recompute = Recompute::none) {
  RunConfig run;
  run.model = model;
  run.micro_batch = batch;
  run.recompute = recompute;
  if (model.positions == PositionKind::rotary) run.attention = AttentionKind::fused;
  return run;
}

ModelConfig gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t sequence,
                int64_t vocabulary = 256) {
  return {.name = "gpt",
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .sequence = sequence,
          .vocabulary = vocabulary,
          .dropout = 0.1};
}

ModelConfig llama(int64_t layers, int64_t hidden, int64_t heads, int64_t sequence,
                  int64_t vocabulary = 256) {
  ModelConfig model = find_model("llama-3m");
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.intermediate = hidden * 11 / 4;
  model.sequence = sequence;
  model.vocabulary = vocabulary;
  return model;
}

/// Layers: table 4 of korthikanti2022 at 1/8, whole and alone, and other proportions. Steps: of
/// models with few layers and with many, a small vocabulary and a large one.
std::vector<Case> cases() {
  const ModelConfig eighth = gpt(1, 768, 64, 256);
  return {{"22B at 1/8", true, with(eighth, 4)},
          {"22B at 1/8, selective", true, with(eighth, 4, Recompute::selective)},
          {"22B at 1/8, full", true, with(eighth, 4, Recompute::full)},
          {"GPT h 384, s 192", true, with(gpt(1, 384, 6, 192), 3)},
          {"GPT h 640, s 320", true, with(gpt(1, 640, 10, 320), 4)},
          {"GPT h 768, s 1024", true, with(gpt(1, 768, 12, 1024), 1)},
          {"GPT h 1280, s 256", true, with(gpt(1, 1280, 20, 256), 2)},
          {"Llama h 768, s 512", true, with(llama(1, 768, 12, 512), 2)},
          {"Llama h 1152, s 256", true, with(llama(1, 1152, 18, 256), 2)},
          {"gpt-3m", false, with(find_model("gpt-3m"), 8)},
          {"gpt-3m, full", false, with(find_model("gpt-3m"), 8, Recompute::full)},
          {"GPT 6 x 384, v 8192", false, with(gpt(6, 384, 6, 256, 8192), 2)},
          {"GPT 12 x 768, v 16384", false, with(gpt(12, 768, 12, 128, 16384), 2)},
          {"llama-3m", false, with(find_model("llama-3m"), 4)},
          {"Llama 4 x 640, v 4096", false, with(llama(4, 640, 10, 384, 4096), 1)}};
}

double error(double predicted, const Case& c) { return 100 * (predicted / median(c.seconds) - 1); }

Table table_of(const std::vector<Case>& all) {
  Table table{{{"what"},
               {"of"},
               {"measured, ms", true},
               {"interval", true},
               {"predicted, ms", true},
               {"error, %", true},
               {"by peaks alone, error, %", true}},
              {}};
  double sum = 0, worst = 0;
  for (const Case& c : all) {
    const Estimate time = median_estimate(c.seconds);
    const double off = error(c.predicted, c);
    sum += std::abs(off);
    worst = std::max(worst, std::abs(off));
    table.rows.push_back(
        {c.name, c.layer ? "layer" : "step", fmt::format("{:.2f}", 1e3 * time.value),
         fmt::format("[{:.2f}, {:.2f}]", 1e3 * time.interval->low, 1e3 * time.interval->high),
         fmt::format("{:.2f}", 1e3 * c.predicted), fmt::format("{:+.1f}", off),
         fmt::format("{:+.1f}", error(c.by_peaks, c))});
  }
  const auto count = static_cast<double>(all.size());
  table.rows.push_back({"mean", "", "", "", "", fmt::format("{:.1f}", sum / count), ""});
  table.rows.push_back({"worst", "", "", "", "", fmt::format("{:.1f}", worst), ""});
  return table;
}

nlohmann::json to_json(const Case& c) {
  return {{"name", c.name},
          {"of", c.layer ? "layer" : "step"},
          {"config", harness::to_json(c.config)},
          {"seconds", c.seconds},
          {"predicted", c.predicted},
          {"by_peaks", c.by_peaks}};
}

struct Options {
  TimingPlan plan{.warm_up = 2, .samples = 10, .budget = 600};
  int threads = usable_processors();
  std::string json;
};

void measure(const Options& options) {
  const auto place = make_target({.on = "cpu", .threads = options.threads});
  const Target& target = *place;
  const Peaks peaks = measure_peaks(target);
  OperationTimes operations(options.threads);
  std::vector<Case> all = cases();
  std::vector<std::function<void(bool)>> runs{[&](bool keep) { operations.round(keep); }};
  for (Case& c : all) {
    c.run = std::make_shared<Run>(make_cpu_cluster(c.config, options.threads), c.config, c.layer);
    runs.emplace_back([&c](bool keep) {
      const double seconds = c.run->seconds();
      if (keep) c.seconds.push_back(seconds);
    });
  }
  const double load_before = load();
  time_interleaved(runs, options.plan);
  const nlohmann::json file = own_machine(peaks, target, "this-machine", "frugal_bench_prediction",
                                          fit_operations(operations.samples()));
  const Machine machine = parse_machine(file.dump(), "the machine that was made");
  Machine plain = machine;
  plain.operations.clear();
  nlohmann::json records = nlohmann::json::array();
  for (Case& c : all) {
    c.predicted = Run(make_virtual_cluster(c.config, machine), c.config, c.layer).seconds();
    c.by_peaks = Run(make_virtual_cluster(c.config, plain), c.config, c.layer).seconds();
    records.push_back(to_json(c));
  }
  fmt::print("{}; {} threads, {} rounds; load {:.1f} before, {:.1f} after\n{}", target.device(),
             options.threads, all.front().seconds.size(), load_before, load(),
             table_of(all).text());
  write_json(options.json, {{"schema", "frugal.prediction/1"},
                            {"threads", options.threads},
                            {"load", {load_before, load()}},
                            {"environment", environment(DeviceKind::cpu)},
                            {"machine", file},
                            {"cases", records}});
}

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  frugal::bench::Options options;
  CLI::App app("Predicted and measured layers and steps on this processor",
               "frugal_bench_prediction");
  app.add_option("--samples", options.plan.samples, "Rounds that are wanted, at least 10");
  app.add_option("--budget", options.plan.budget, "Seconds after which no round beyond 10 begins");
  app.add_option("--threads", options.threads, "Kernel threads; all processors otherwise")
      ->check(CLI::Range(1, 4096));
  app.add_option("--json", options.json, "File for raw samples and the machine");
  try {
    app.parse(argc, argv);
    frugal::bench::measure(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const frugal::kernels::InputError& error) {
    fmt::print(stderr, "frugal_bench_prediction: {}\n", error.what());
    return 2;
  }
}
