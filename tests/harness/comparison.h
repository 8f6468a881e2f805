#pragma once
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "tests/harness/support.h"

namespace frugal::testing {

/// A measured record as one process leaves it.
inline Record measured(const std::string& case_id, std::vector<double> times) {
  Record r;
  r.artifact = "bench/gemm";
  r.case_id = case_id;
  r.what = "benchmark";
  r.source = Source::measured;
  r.on = "cpu";
  r.device = "a processor, 2 threads";
  r.options = {{"threads", "2"}, {"samples", "10"}};
  r.metrics["time"] = {"s", std::move(times)};
  r.command = "frugal bench gemm --on cpu";
  r.environment = R"({"processor": {"governor": "performance"}, "load_average": [1, 2, 3],
                      "build": {"commit": "abc"}})";
  return r;
}

/// Records of so many processes that ran one after the other, from this second on, with these gaps.
inline std::vector<Record> processes(Record one, const std::vector<std::vector<double>>& times,
                                     int first_second = 0, int every = 10) {
  std::vector<Record> all;
  for (const std::vector<double>& samples : times) {
    const int second = first_second + every * static_cast<int>(all.size());
    one.metrics["time"].samples = samples;
    one.started = "2026-01-01T00:00:" + std::to_string(1000 + second).substr(1);
    one.ended = one.started + ".5";
    all.push_back(one);
  }
  return all;
}

}  // namespace frugal::testing
