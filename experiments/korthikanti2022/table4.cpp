#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/layer_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

constexpr const char* model_name = "22B";

constexpr std::array table4_rows{
    Named{"baseline", baseline},
    Named{"sequence parallel", sequence},
    Named{"full recompute", full},
    Named{"selective recompute", selective},
    Named{"selective recompute + sequence parallel", present},
    Named{"fused attention", fused},
    Named{"fused attention + sequence parallel", fused_sequence},
};

/// On one GPU: what recomputation costs where no communication hides or adds anything. The paper
/// has no such numbers.
constexpr const char* one_device = ", one device";
constexpr std::array alone_rows{
    Named{"baseline", alone_baseline},
    Named{"full recompute", alone_full},
    Named{"selective recompute", alone_selective},
    Named{"fused attention", alone_fused},
};

using Samples = std::vector<double>;

/// Throws InputError unless the samples of all these records were taken in the same rounds: only
/// then does what slowed one of them down cancel.
void require_same_rounds(std::initializer_list<const Record*> records) {
  const auto count = [](const Record& r) { return r.samples(metric::forward_time).size(); };
  const Record& first = **records.begin();
  for (const Record* r : records)
    if (r->rounds != first.rounds || count(*r) != count(first))
      throw InputError(fmt::format(
          "{} and {} were not timed in the same rounds; run this artifact again with --force",
          first.case_id, r->case_id));
}

Samples combine(const Samples& a, const Samples& b,
                const std::function<double(double, double)>& f) {
  if (a.size() != b.size()) throw InputError("samples that are combined must be equally many");
  Samples c(a.size());
  std::transform(a.begin(), a.end(), b.begin(), c.begin(), f);
  return c;
}

Samples forward_samples(const Record& record) { return record.samples(metric::forward_time); }
Samples backward_samples(const Record& record) { return record.samples(metric::backward_time); }
Samples combined(const Record& record) {
  return combine(forward_samples(record), backward_samples(record), std::plus<>());
}

/// offset + factor · x.
Estimate scaled(Estimate x, double factor, double offset) {
  const auto map = [&](double y) { return offset + factor * y; };
  x.value = map(x.value);
  if (x.interval) {
    const auto [low, high] = std::minmax({map(x.interval->low), map(x.interval->high)});
    x.interval = Interval{low, high};
  }
  return x;
}

constexpr const char* fitted_note =
    "three numbers of the machine's description were fitted to this table";

std::string at_scale(int64_t scale) {
  if (scale == 1) return "";
  return fmt::format("; scale {} keeps the ratios of memory and of FLOPs, not arithmetic intensity",
                     scale_name(scale));
}

/// What measured times depend on, from a record of them.
std::string circumstances(const Record& r) {
  const RunConfig& c = r.config;
  // The device says of a lone rank that it is one, and whose links its communication is charged to.
  std::string text =
      fmt::format("{}; {}, microbatch {}, ", r.device, name_of(c.type), c.micro_batch);
  if (r.on != "cpu") {
    text += r.modelled
                ? fmt::format("the other {} ranks absent: their communication is modelled",
                              c.tensor_parallel - 1)
                : fmt::format("{} GPU{}", c.tensor_parallel, c.tensor_parallel > 1 ? "s" : "");
    return text + at_scale(r.scale);
  }
  text += fmt::format("{} ranks as threads", c.tensor_parallel);
  const auto environment = nlohmann::json::parse(r.environment, nullptr, false);
  if (const nlohmann::json::json_pointer at("/processor/usable_processors");
      environment.is_object() && environment.contains(at))
    text += fmt::format(" on {} processors", environment.at(at).get<int>());
  if (const auto threads = r.options.find("threads"); threads != r.options.end())
    text += fmt::format(" with {} kernel threads", threads->second);
  return text + at_scale(r.scale);
}

/// Table 4: forward and backward time of a layer of the 22B model on eight devices. Milliseconds
/// are the paper's only at full size on its own machine; elsewhere the overheads are.
class Table4 final : public LayerArtifact {
 public:
  Table4()
      : LayerArtifact(
            "table4",
            {.what = Case::What::module_time,
             .models = {model_name},
             .techniques = {baseline, sequence, full, selective, present, fused, fused_sequence},
             .cpu_scale = 4,
             .cpu_type = DType::f32,
             .cpu_micro_batch = 4,
             .cuda_only = {alone_baseline, alone_full, alone_selective, alone_fused}}) {}

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      if (c.paper && c.column == "overhead")
        claims.push_back(
            claim_about(c, fmt::format("table4/{}/overhead", c.row),
                        fmt::format("{} adds {} % to the baseline's time", c.row, c.paper.value()),
                        1, "whole percents are printed, of times that are printed to 0.1 ms"));
      if (c.paper && c.column == "combined")
        claims.push_back(claim_about(
            c, fmt::format("table4/{}/combined", c.row),
            fmt::format("{}: forward and backward take {} ms", c.row, c.paper.value()),
            0.03 * c.paper.value(), "3 %: a model of the machine, fitted to this table"));
    }
    for (const Setting& setting : records.settings(id())) {
      if (!layers(records, model_name, setting).expects(baseline)) continue;
      claims.push_back(overhead_removed(setting, records));
      claims.push_back(forward_saved(setting, records));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    for (const auto& [row, technique] : table4_rows)
      add_row(cells, row, "", technique, baseline, setting, records);
    if (setting.on == "cuda")
      for (const auto& [row, technique] : alone_rows)
        add_row(cells, row, one_device, technique, alone_baseline, setting, records);
    return cells;
  }

 private:
  /// Times of a technique, and what it adds to those of `base`; columns end in `suffix`.
  void add_row(std::vector<Cell>& cells, std::string_view row, const std::string& suffix,
               const Technique& technique, const Technique& base, const Setting& setting,
               const Records& records) const {
    if (!layers(records, model_name, setting).expects(technique)) return;
    const std::pair<const char*, Samples (*)(const Record&)> times[] = {
        {"forward", forward_samples}, {"backward", backward_samples}, {"combined", combined}};
    for (const auto& [column, samples] : times)
      cells.push_back(milliseconds(row, column + suffix, technique, samples, setting, records));
    if (technique.id != base.id)
      cells.push_back(overhead(row, "overhead" + suffix, technique, base, setting, records));
  }

  Cell milliseconds(std::string_view row, std::string_view column, const Technique& technique,
                    Samples (*samples)(const Record&), const Setting& setting,
                    const Records& records) const {
    const Layers layer = layers(records, model_name, setting);
    const auto median_ms = [&](const Record& r) {
      return scaled(median_estimate(samples(r)), 1e3, 0);
    };
    Cell c = make_cell(row, column, "ms", setting, layer.observe(median_ms, technique));
    c.note = note(layer, technique);
    if (setting.source == Source::measured || setting.scale != 1) {
      c.paper.reset();
      c.read.clear();
      if (c.value)
        c.reason = "milliseconds of another machine or size stand beside none of the paper's";
    }
    return c;
  }

  Cell overhead(std::string_view row, const std::string& column, const Technique& technique,
                const Technique& base, const Setting& setting, const Records& records) const {
    const Layers layer = layers(records, model_name, setting);
    const auto percent = [](const Record& base, const Record& ours) {
      require_same_rounds({&base, &ours});
      return scaled(paired_ratio(combined(ours), combined(base)), 100, -100);
    };
    Cell c = make_cell(row, column, "%", setting, layer.observe(percent, base, technique));
    c.note = note(layer, technique);
    return c;
  }

  static std::string note(const Layers& layer, const Technique& technique) {
    const bool simulated = layer.setting().source == Source::simulated;
    if (technique.attention == AttentionKind::fused && simulated)
      return fmt::format("{}; the machine's model of fused attention is not calibrated",
                         not_the_papers);
    if (simulated) return fitted_note;
    const Record* record = layer.find(technique).record;
    if (record == nullptr) return "";
    const std::string text = circumstances(*record);
    return technique.attention == AttentionKind::fused ? fmt::format("{}; {}", text, not_the_papers)
                                                       : text;
  }

  Claim overhead_removed(const Setting& setting, const Records& records) const {
    const auto percent = [](const Record& base, const Record& all, const Record& ours) {
      require_same_rounds({&base, &all, &ours});
      const Samples gained = combine(combined(all), combined(ours), std::minus<>());
      const Samples lost = combine(combined(all), combined(base), std::minus<>());
      return scaled(paired_ratio(gained, lost), 100, 0);
    };
    Claim claim =
        stated("overhead-90", setting,
               layers(records, model_name, setting).observe(percent, baseline, full, present));
    claim.statement =
        "sequence parallelism and selective recomputation remove over 90 % of the execution time "
        "overhead of full recomputation";
    claim.relation = Claim::Relation::at_least;
    claim.tolerance = 2.5;
    claim.justification =
        "table 4's times are printed to 0.1 ms, which leaves 90.8 uncertain by 2.5 points";
    return claim;
  }

  Claim forward_saved(const Setting& setting, const Records& records) const {
    const auto percent = [](const Record& base, const Record& ours) {
      require_same_rounds({&base, &ours});
      return scaled(paired_ratio(forward_samples(ours), forward_samples(base)), -100, 100);
    };
    Claim claim = stated("sp-forward", setting,
                         layers(records, model_name, setting).observe(percent, baseline, sequence));
    claim.statement = "sequence parallelism makes the forward pass 6 % shorter";
    claim.tolerance = 1.8;
    claim.justification = "7.7 and 7.2 ms are printed to 0.1 ms: 6.5 % ± 1.3, printed as 6";
    return claim;
  }

  /// A claim about the percentage in one of the paper's statements.
  static Claim stated(const char* id, const Setting& setting, const Outcome& outcome) {
    Claim claim;
    claim.id = id;
    claim.paper = statement(id).value;
    claim.unit = "%";
    set(claim, setting, outcome);
    claim.fitted = fitted_to(setting, "korthikanti2022/table4");
    return claim;
  }
};

}  // namespace

const Artifact& table4() {
  static const Table4 artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
