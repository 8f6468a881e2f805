#pragma once
#include <string>

#include "engine/plan/search.h"

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

/// What is asked for it: on all of a machine's memory.
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

/// A machine whose host is not what is late, and whose messages hold nobody up.
inline Machine free_running() {
  Machine machine = find_machine("v100-p3-16xlarge");
  machine.launch_overhead = 3.8e-6;
  return machine;
}

}  // namespace frugal::testing
