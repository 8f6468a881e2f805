#pragma once
#include <gtest/gtest.h>

#include "engine/plan/execute.h"

namespace frugal::testing {

using namespace engine;

inline const auto& two_buffered = ScheduleKind::two_buffered;
inline const auto& flush = ScheduleKind::one_forward_one_backward;

/// A model of 512 tokens as planners see it, in bf16.
inline RunConfig planned_gpt(int64_t layers, int64_t hidden, int64_t heads,
                             int64_t vocabulary = 50304) {
  RunConfig run;
  run.model = {.name = "gpt",
               .layers = layers,
               .hidden = hidden,
               .heads = heads,
               .sequence = 512,
               .vocabulary = vocabulary};
  run.type = DType::bf16;
  return run;
}

/// Request of a plan for it: on all of a machine's memory.
inline PlanRequest plan_request(const RunConfig& run, const char* machine, int devices,
                                int64_t batch, ScheduleKind schedule) {
  PlanRequest request;
  request.run = run;
  request.schedules = {std::move(schedule)};
  request.machine = find_machine(machine);
  request.memory = request.machine.memory_capacity;
  request.devices = devices;
  request.batch = batch;
  return request;
}

/// Prediction of a run, with the optimizer that plans have.
inline Prediction predicted(const RunConfig& run, const Machine& machine) {
  const PartCosts costs(run, planned_optimizer(run.schedule), machine);
  return predict(run, costs, Links(run, machine), machine);
}
inline Execution executed(const RunConfig& run, const Machine& machine) {
  return execute_plan(run, planned_optimizer(run.schedule), machine);
}

/// Bytes of each stage to the byte, but for the losses' sums: 8 for each batch that is trained in
/// one go.
inline void expect_memory(const Prediction& prediction, const Execution& execution) {
  ASSERT_EQ(prediction.stages.size(), execution.memory.size());
  for (size_t i = 0; i < execution.memory.size(); ++i) {
    const int64_t sums = int64_t{8} * Execution::batches;
    EXPECT_EQ(prediction.stages[i].memory + sums, execution.memory[i]) << "stage " << i;
    EXPECT_EQ(prediction.stages[i].on_host, execution.on_host[i]) << "stage " << i;
  }
}

/// Compares a prediction with the execution; its time may be off by a part of that.
inline void expect_predicted(const RunConfig& run, const Machine& machine, double within) {
  const Prediction prediction = predicted(run, machine);
  const Execution execution = executed(run, machine);
  EXPECT_NEAR(prediction.seconds / execution.seconds, 1, within);
  expect_memory(prediction, execution);
}

/// A machine whose host is not what is late, and whose messages hold nobody up.
inline Machine free_running() {
  Machine machine = find_machine("v100-p3-16xlarge");
  machine.launch_overhead = 3.8e-6;
  return machine;
}

}  // namespace frugal::testing
