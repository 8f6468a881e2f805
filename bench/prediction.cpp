// How well does a virtual machine predict the machine that it was made of? Operations are timed one
// by one in small models, and layers and training steps of other models as a whole, all by turns in
// one run. A machine is made of the operations' times (`frugal peak --machine` makes the same), the
// layers and steps are executed on it virtually, and both times stand side by side. No layer or
// step that is predicted was seen when the machine was made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/benchmarks.h"
#include "bench/numbers.h"
#include "bench/predicted_models.h"
#include "harness/calibrate/own_machine.h"
#include "harness/measure/runs/case_run.h"
#include "harness/measure/runs/operation_times.h"
#include "harness/measure/runs/whole_model.h"
#include "harness/place/target.h"

namespace frugal::bench {
namespace {

constexpr const char *operations = "operations", *small_models = "small-models";
// Metrics: seconds of the virtual machine, and those over the measured ones less 1.
constexpr const char *virtual_time = "virtual_time", *virtual_error = "virtual_time_error",
                     *time_by_peaks = "virtual_time_by_peaks",
                     *error_by_peaks = "virtual_time_by_peaks_error";

/// What the cases of one run share: the operations' times, and the machine that is made of them.
class MeasuredMachine {
 public:
  void keep(OperationSamples samples) { samples_ = std::move(samples); }
  const OperationSamples& samples() const { return samples_; }

  /// The machine as a file has it; null where no operation was timed. Measures peaks when it is
  /// asked for the first time: the processor is to do nothing else.
  const nlohmann::json& file(const Target& target) {
    if (file_.is_null() && !samples_.empty())
      file_ = own_machine(measure_peaks(target), target, "this-machine", "frugal bench prediction",
                          fit_operations(samples_));
    return file_;
  }

 private:
  OperationSamples samples_;
  nlohmann::json file_;
};
using SharedMachine = std::shared_ptr<MeasuredMachine>;

/// The name of a metric: all that fit_operations() knows of an operation but its times.
std::string metric_of(const OperationSize& size) {
  const auto& [form, bytes, product] = size;
  const auto& [once, flops, a, b, c] = product;
  if (flops == 0) return fmt::format("{}, {} bytes", form, bytes);
  return fmt::format("{}, {} bytes ({}, {}, {}), {} FLOPs", form, bytes, a, b, c, flops);
}

/// Times the operations of small models one by one. Its record has all that the machine was made
/// of: every operation's times, and what peaks gave of the device.
class OperationsRun final : public CaseRun {
 public:
  OperationsRun(SharedMachine machine, const Target& target)
      : machine_(std::move(machine)), target_(target) {}

  void observe(Record& /*record*/) override { times_.emplace(target_.threads().value()); }
  void time(Record& record, bool keep) override {
    const double start = steady_seconds();
    times_->round(keep);
    if (keep) record.add_sample(metric::time, "s", steady_seconds() - start);
  }
  void release(Record& record) override {
    if (record.ok()) machine_->keep(times_->samples());
    times_.reset();
  }
  void rate(Record& record) override {
    for (const auto& [size, seconds] : machine_->samples())
      record.metrics[metric_of(size)] = {"s", seconds};
    for (const auto& [name, parameter] : machine_->file(target_).at("device").items())
      if (parameter.at("value").is_number())
        record.add_sample("machine/" + name, parameter.at("unit").get<std::string>().c_str(),
                          parameter.at("value").get<double>());
  }
  bool holds_memory() const override { return times_.has_value(); }

 private:
  const SharedMachine machine_;
  const Target& target_;
  std::optional<OperationTimes> times_;
};

class PredictedRun final : public CaseRun {
 public:
  PredictedRun(PredictedModel model, SharedMachine machine, const Target& target)
      : model_(std::move(model)), machine_(std::move(machine)), target_(target) {}

  void observe(Record& /*record*/) override {
    run_ =
        std::make_unique<WholeModel>(target_.cluster(model_.config), model_.config, model_.layer);
  }
  void time(Record& record, bool keep) override {
    const double seconds = run_->seconds();
    if (keep) record.add_sample(metric::time, "s", seconds);
  }
  void release(Record& /*record*/) override { run_.reset(); }
  void rate(Record& record) override {
    const nlohmann::json& file = machine_->file(target_);
    if (file.is_null()) return;  // the operations' record says why
    Machine machine = parse_machine(file.dump(), "the machine that was made");
    predict(machine, virtual_time, virtual_error, record);
    machine.operations.clear();
    predict(machine, time_by_peaks, error_by_peaks, record);
  }
  bool holds_memory() const override { return run_ != nullptr; }

 private:
  void predict(const Machine& machine, const char* time, const char* error, Record& record) const {
    const double seconds =
        WholeModel(make_virtual_cluster(model_.config, machine), model_.config, model_.layer)
            .seconds();
    add_prediction(seconds, time, error, record);
  }

  const PredictedModel model_;
  const SharedMachine machine_;
  const Target& target_;
  std::unique_ptr<WholeModel> run_;
};

std::optional<BenchmarkCase> predicted_case(const Point& point, const SharedMachine& machine) {
  const std::string &of = point.at("of"), &name = point.at("model");
  BenchmarkCase found;
  if (of == operations && name == small_models)
    found.make = [machine](const Target& target) {
      return std::make_unique<OperationsRun>(machine, target);
    };
  for (const PredictedModel& model : predicted_models()) {
    if (of != (model.layer ? "layer" : "step") || name != model.name) continue;
    found.config = model.config;
    found.make = [model, machine](const Target& target) {
      return std::make_unique<PredictedRun>(model, machine, target);
    };
  }
  if (!found.make) return std::nullopt;
  return found;
}

std::vector<BenchmarkAxis> prediction_axes() {
  BenchmarkAxis models{"model", {small_models}};
  for (const PredictedModel& model : predicted_models()) models.values.push_back(model.name);
  return {{"of", {operations, "layer", "step"}}, models};
}

std::vector<std::string> errors_of(const std::vector<Record>& records) {
  double sum = 0, worst = 0;
  size_t count = 0;
  for (const Record& record : records)
    for (const double error : record.samples(virtual_error)) {
      sum += std::abs(error);
      worst = std::max(worst, std::abs(error));
      ++count;
    }
  if (count == 0) return {};
  return {fmt::format("error of the prediction: mean {:.1f} %, worst {:.1f} %, of {} cases",
                      100 * sum / static_cast<double>(count), 100 * worst, count)};
}

}  // namespace

const Benchmark& prediction() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "prediction",
      .title = "Layers and steps, measured, and predicted by a machine made of operations' times",
      .axes = prediction_axes(),
      .at_of_a_run =
          [] {
            return [machine = std::make_shared<MeasuredMachine>()](const Point& point) {
              return predicted_case(point, machine);
            };
          },
      .by_turns = {"of", "model"},
      .columns = {{"measured, ms", metric::time, Shows::value, 1e-3},
                  {"predicted by the virtual machine, ms", virtual_time, Shows::value, 1e-3},
                  {"error, %", virtual_error, Shows::value, 1e-2},
                  {"error by peaks alone, %", error_by_peaks, Shows::value, 1e-2}},
      .summary = errors_of};
  return benchmark;
}

}  // namespace frugal::bench
