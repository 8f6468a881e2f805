#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "harness/measure/artifact.h"
#include "harness/place/environment.h"
#include "harness/record/record.h"
#include "nlohmann/json.hpp"
#include "tests/support/folder.h"

namespace frugal::testing {
using namespace harness;

inline std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline RunConfig tiny() {
  RunConfig config;
  config.model = {
      .name = "tiny", .layers = 1, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 32};
  return config;
}

/// A record in which every field has a value of its own.
inline Record full_record() {
  Record r;
  r.artifact = "paper/table";
  r.case_id = "a case";
  r.what = "layer_time";
  r.source = Source::measured;
  r.on = "cpu";
  r.device = "a processor";
  r.scale = 4;
  r.config = tiny();
  r.config.model.causal = false;
  r.config.model.objective = Objective::masked_token;
  r.config.recompute = Recompute::selective;
  r.config.type = DType::bf16;
  r.config.sequence_parallel = r.config.stored_masks = true;
  r.config.tensor_parallel = 2;
  r.config.micro_batch = 3;
  r.config.microbatches = 5;
  r.config.seed = 99;
  r.options = {{"threads", "2"}};
  r.machine = hash_of("a data sheet");
  r.rounds = hash_of("its rounds");
  r.fingerprint = fingerprint_of(r);
  r.metrics["forward_time"] = {"s", {0.3, 0.1, 0.2}};
  r.findings["fastest"] = "t2 w4";
  r.memory = {BytesPerKind{1, 2, 3, 4, 5, 6, 7}, BytesPerKind{8, 9, 10, 11, 12, 13, 14}, 77, 88};
  r.flops = Flops{100, "eq", 120, "executed", 110};
  r.work.emplace();
  r.work->stage = 1;
  r.work->done.add(Fill{{nullptr, DType::f32, {10}}, 0});
  r.work->least = {10, 20, 30, 40, 50};
  r.utilization = Utilization{1e12, {}, {0.5, ""}, {{}, "unknown"}, {0.6, ""}, {{}, "unknown"}};
  r.utilization->at_clock = {8e11, {0.7, ""}, {0.75, ""}};
  r.order_seed = 4294967295U;
  GpuLoad load;
  load.samples = 9;
  load.sm_clock = GpuLoad::Range{1400, 1290, 1570};
  load.throttled = {{"power cap", 0.75}};
  r.gpu_load = GpuLoads{{load}, ""};
  r.losses = {3.5, 2.5};
  r.held_out = {{2, 2.75}};
  r.command = "frugal reproduce paper/table";
  r.started = r.ended = "2022-05-10T12:00:00.000Z";
  r.environment = environment().dump();
  return r;
}

}  // namespace frugal::testing
