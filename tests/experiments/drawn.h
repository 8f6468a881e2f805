#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "experiments/artifacts.h"
#include "tests/experiments/synthetic.h"

/// Records whose numbers are all drawn, so that none can stand for another.
namespace frugal::experiments::drawn_records {

inline constexpr double GiB = 1073741824;

/// A number of a case, at least 1 and below 2.
inline double drawn(const std::string& case_id, const std::string& what) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : case_id + "|" + what)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return 1 + static_cast<double>(hash >> 40 & 0xffff) / 65536;
}
inline int64_t bytes(const std::string& case_id, const std::string& what) {
  return static_cast<int64_t>(drawn(case_id, what) * 65536) << 14;  // 1 to 2 GiB
}

/// Rounds of which each is another time slower than the case's own time. Medians are of 1.25.
inline constexpr std::array<double, 7> slow{1.5, 1, 1.125, 2, 1.25, 1.0625, 1.375};

/// The case that computes nothing again and is the same otherwise.
inline std::string without_recomputation(const std::string& id) {
  const size_t slash = id.find('/');
  if (slash == std::string::npos) return id;
  std::string technique = id.substr(slash + 1);
  if (technique == "full" || technique == "selective") technique = "baseline";
  if (const size_t plus = technique.find("+selective"); plus != std::string::npos)
    technique.erase(plus);
  return id.substr(0, slash + 1) + technique;
}

/// A case's own time of a pass. Forward passes that are the same work differ by up to a thousandth.
inline double own_time(const std::string& id, const std::string& pass) {
  if (pass != "forward") return drawn(id, pass);
  return drawn(without_recomputation(id), pass) * (1 + 1e-3 * (drawn(id, pass) - 1));
}
inline double round_time(const std::string& id, const std::string& pass, size_t round) {
  return own_time(id, pass) * slow[pass == "forward" ? round : (3 * round + 2) % slow.size()];
}
inline double median_of(const std::function<double(size_t)>& of_round) {
  std::vector<double> all;
  for (size_t round = 0; round < slow.size(); ++round) all.push_back(of_round(round));
  std::sort(all.begin(), all.end());
  return all[3];
}
inline double step_seconds(const std::string& id) { return 1.25 * drawn(id, "step"); }

inline constexpr std::array kinds{"parameter",  "gradient",  "optimizer",    "activation",
                                  "statistics", "workspace", "communication"};
inline BytesPerKind per_kind(const std::string& id, const std::string& what) {
  BytesPerKind all{};
  for (size_t k = 0; k < kinds.size(); ++k) all[k] = bytes(id, what + kinds[k]);
  return all;
}

/// Bytes at the peak of a pipeline's stage: where microbatches are kept whole, 20 GiB and, for each
/// kept one, 1 GiB and an eighth more on every next stage.
inline int64_t stage_peak(const std::string& id, size_t stage) {
  if (!id.ends_with("-kept") || id.find("sequence") != std::string::npos)
    return bytes(id, fmt::format("{} peak", stage));
  const int64_t kept = id[id.size() - 6] - '0';
  return (int64_t{20} << 30) + kept * ((int64_t{1} << 30) + (static_cast<int64_t>(stage) << 27));
}

inline void observe_all(Record& r) {
  const std::string& id = r.case_id;
  Memory& memory = r.memory.emplace();
  memory.after_forward = per_kind(id, "after ");
  memory.peak = per_kind(id, "peak ");
  memory.peak_total = bytes(id, "total");
  memory.reserved = bytes(id, "reserved");
  for (size_t i = 0; i < static_cast<size_t>(r.config.pipeline_parallel); ++i) {
    StageMemory& stage = memory.stages.emplace_back();
    const auto of = [&](const char* what) { return fmt::format("{} {} ", i, what); };
    stage.at_peak = per_kind(id, of("at"));
    stage.peak = stage_peak(id, i);
    stage.peak_per_kind = per_kind(id, of("most"));
    stage.peak_in_layers = bytes(id, of("layers"));
    stage.held = per_kind(id, of("held"));
    for (size_t part = 0; part < stage.kept.size(); ++part)
      stage.kept[part].bytes = bytes(id, of("kept") + std::to_string(part));
  }
  r.flops = Flops{1, "", 1e15 * drawn(id, "flops"), "executed", {}};
  for (const char* pass : {"forward", "backward"})
    for (size_t round = 0; round < slow.size(); ++round)
      r.add_sample(fmt::format("{}_time", pass), "s", round_time(id, pass, round));
  for (const double factor : slow) r.add_sample(metric::step_time, "s", drawn(id, "step") * factor);
  r.add_sample(metric::longest_sequence, "tokens", 1e4 * drawn(id, "length"));
}

/// korthikanti2022, table 3: layers, hidden size, heads, stages, chunks of a stage, microbatch and
/// batch.
struct Gpt {
  std::string name;
  double layers, hidden;
  int heads, stages, chunks, micro_batch, batch;

  /// Equations 7 and 8 of so many sequences: `core` is 6, or 3 with the core computed again.
  double flops(double sequences, double core) const {
    constexpr double s = 2048, v = 51200;
    return 72 * sequences * layers * s * hidden * hidden *
           (1 + s / (core * hidden) + v / (12 * hidden * layers));
  }
  double of_peak(double core, double seconds, double replicas = 1) const {
    return 100 * flops(batch * replicas, core) / (seconds * 8 * stages * replicas * 312e12);
  }
};
inline const std::vector<Gpt> gpts = {{"22B", 48, 6144, 64, 1, 1, 4, 4},
                                      {"175B", 96, 12288, 96, 8, 3, 1, 64},
                                      {"530B", 105, 20480, 128, 35, 3, 1, 280},
                                      {"1T", 128, 25600, 160, 64, 1, 1, 512}};

inline const Artifact& artifact_of(const std::string& id) {
  static const std::vector<const Artifact*> all = all_artifacts();
  return **std::ranges::find(all, id, [](const Artifact* one) { return one->id(); });
}
/// Draws records of an artifact's cases on its virtual machine.
inline Records drawn_of(const Artifact& artifact) {
  return records_of(artifact, {.cpu = false}, observe_all);
}

}  // namespace frugal::experiments::drawn_records
