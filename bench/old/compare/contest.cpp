#include "bench/compare/contest.h"

#include <fmt/format.h>

#include "harness/measure/statistics.h"
#include "harness/place/environment.h"

namespace frugal::bench {

Report::Report(Options options, std::string unit) : options_(std::move(options)) {
  table_.columns = {{"case"},        {unit, true},       {"reference " + unit, true},
                    {"ratio", true}, {"95 % low", true}, {"high", true},
                    {"rounds", true}};
  if (options_.json.empty()) return;
  file_ = LineFile("--json", options_.json);
  file_.drop_cut_line();
  about_ = {{"schema", "frugal.comparison/1"},
            {"unit", table_.columns[1].name},
            {"on", options_.on},
            {"threads", options_.threads},
            {"environment", environment()}};
}

void Report::add(const Contest& contest) {
  std::vector<double> ours, theirs;
  const auto timed = [&](const std::function<void()>& run, std::vector<double>& samples) {
    return [&](bool keep) {
      const double start = contest.clock();
      run();
      if (keep) samples.push_back((contest.clock() - start) / contest.repetitions);
    };
  };
  time_interleaved({timed(contest.run, ours), timed(contest.reference, theirs)},
                   {.warm_up = 2, .samples = options_.samples, .budget = options_.budget});
  // Time per work, theirs over ours, is the ratio of rates.
  const double per_work = contest.work / contest.reference_work;
  const Estimate seconds = paired_ratio(theirs, ours);
  const auto giga = [](double work, const std::vector<double>& samples) {
    return format_number(work / median(samples) / 1e9);
  };
  table_.rows.push_back(
      {contest.name, giga(contest.work, ours), giga(contest.reference_work, theirs),
       fmt::format("{:.3f}", seconds.value * per_work),
       fmt::format("{:.3f}", seconds.interval->low * per_work),
       fmt::format("{:.3f}", seconds.interval->high * per_work), std::to_string(ours.size())});
  if (!options_.json.empty()) record(contest, ours, theirs);
  fmt::print(stderr, "{:<50} {}\n", contest.name, table_.rows.back()[3]);
}

void Report::record(const Contest& contest, const std::vector<double>& ours,
                    const std::vector<double>& theirs) {
  nlohmann::json line = about_;
  line["contests"] = {{{"case", contest.name},
                       {"work", contest.work},
                       {"reference_work", contest.reference_work},
                       {"seconds", ours},
                       {"reference_seconds", theirs}}};
  file_.append(line.dump());
}

void Report::print() const { fmt::print("{}", table_.text()); }

Buffer::Buffer(Device& device, DType type, const Shape& shape)
    : device_(device), view_(device.allocate(shape.size() * size_of(type)), type, shape) {
  if (type == DType::u8 || type == DType::i32) return;
  static uint32_t count = 0;
  device.execute(RandomNormal{.x = view_, .deviation = 1, .stream = {1, 2, ++count}, .index = {}});
}

}  // namespace frugal::bench
