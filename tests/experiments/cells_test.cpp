// Every cell of every artifact, computed a second time from the raw numbers of its cases' records.
#include <gtest/gtest.h>

#include <map>

#include "experiments/paper.h"
#include "tests/experiments/drawn.h"

namespace frugal::experiments {
namespace {

using namespace drawn_records;

/// The cells of an artifact on its virtual machine; each has to be expected once.
class Cells {
 public:
  explicit Cells(const std::string& id) : id_(id) {
    const Artifact& artifact = artifact_of(id);
    for (const Cell& cell : artifact.cells(drawn_of(artifact)))
      EXPECT_TRUE(cells_.emplace(key(cell.row, cell.column, cell.source), cell).second);
  }
  ~Cells() {
    for (const auto& [name, cell] : cells_)
      ADD_FAILURE() << id_ << ": nothing expected of " << name;
  }
  void expect(const std::string& row, const std::string& column, const std::string& unit,
              double value, Source source = Source::simulated,
              std::optional<double> tolerance = {}) {
    const auto found = cells_.find(key(row, column, source));
    ASSERT_NE(found, cells_.end()) << id_ << " " << row << " " << column;
    EXPECT_NEAR(found->second.value.value_or(0), value, 1e-9 * std::abs(value))
        << id_ << " " << row << " " << column << " " << found->second.reason;
    EXPECT_EQ(found->second.unit, unit) << id_ << " " << row << " " << column;
    if (tolerance) {
      EXPECT_NEAR(found->second.tolerance.value_or(-1), *tolerance, 1e-9) << row << " " << column;
    }
    cells_.erase(found);
  }
  std::string first_case(const std::string& row, const std::string& column) const {
    return cells_.at(key(row, column, Source::simulated)).cases.at(0);
  }
  std::vector<std::pair<std::string, std::string>> names() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [name, cell] : cells_) all.emplace_back(cell.row, cell.column);
    return all;
  }

 private:
  static std::string key(const std::string& row, const std::string& column, Source source) {
    return fmt::format("{} / {}{}", row, column, source == Source::formula ? " / formula" : "");
  }
  std::string id_;
  std::map<std::string, Cell> cells_;
};

double after(const std::string& id, const char* kind = "activation") {
  return static_cast<double>(bytes(id, fmt::format("after {}", kind)));
}
double both_passes(const std::string& id, size_t round) {
  return round_time(id, "forward", round) + round_time(id, "backward", round);
}
/// Bytes of a kind that a stage has: "held", the "most", or "at" the peak.
double of_stage(const std::string& id, const char* what, const char* kind, size_t stage = 0) {
  return static_cast<double>(bytes(id, fmt::format("{} {} {}", stage, what, kind)));
}

TEST(Cells, OfKorthikantisLayers) {
  Cells table2("korthikanti2022/table2"), parts("korthikanti2022/section4.1"),
      figure7("korthikanti2022/figure7"), section5("korthikanti2022/section5");
  for (const Gpt& m : gpts) {
    const auto id = [&](const std::string& technique) { return m.name + "/" + technique; };
    const std::string base = id("baseline"), sp = id("sequence-parallel"),
                      ours = id("sequence-parallel+selective");
    for (const auto& [row, technique] : std::map<std::string, const char*>{
             {"no parallelism", "serial"},
             {"tensor parallel (baseline)", "baseline"},
             {"tensor + sequence parallel", "sequence-parallel"},
             {"tensor parallel + selective recompute", "selective"},
             {"tensor + sequence parallel + selective recompute", "sequence-parallel+selective"},
             {"full recompute", "full"}}) {
      table2.expect(row, m.name, "bytes", after(id(technique)));
      table2.expect(row, m.name + ", statistics", "bytes", after(id(technique), "statistics"));
    }
    const auto part = [&](int p) {
      return static_cast<double>(bytes(id("serial"), fmt::format("0 kept {}", p)));
    };
    parts.expect("layer norms", m.name, "bytes", part(3) - after(id("serial"), "statistics"));
    parts.expect("attention", m.name, "bytes", part(4));
    parts.expect("MLP", m.name, "bytes", part(5));
    for (const auto& [column, technique] : std::map<std::string, const char*>{
             {"sequence parallel", "sequence-parallel"},
             {"selective recompute", "selective"},
             {"sequence parallel + selective recompute", "sequence-parallel+selective"},
             {"full recompute", "full"},
             {"fused attention", "fused"},
             {"fused attention + sequence parallel", "sequence-parallel+fused"}})
      figure7.expect(m.name, column, "%", 100 * after(id(technique)) / after(base));
    section5.expect(m.name, "memory reduction", "x", after(base) / after(ours));
    if (m.name != "175B" && m.name != "530B") continue;
    section5.expect(m.name, "activation memory saved", "%", 100 - 100 * after(ours) / after(sp));
    section5.expect(m.name, "additional FLOPs", "%",
                    100 * 1e15 * (drawn(ours, "flops") - drawn(sp, "flops")) * m.layers /
                        m.flops(m.micro_batch, 6));
    section5.expect(m.name, "additional FLOPs", "%", 100 * (m.flops(1, 3) / m.flops(1, 6) - 1),
                    Source::formula);
    section5.expect(m.name, "additional FLOPs, attention core counted as its forward pass", "%",
                    100 * 4 * 2048.0 * 2048 * m.hidden * m.layers / m.flops(1, 6), Source::formula);
  }
}

TEST(Cells, OfKorthikantisTimes) {
  Cells table4("korthikanti2022/table4"), figure8("korthikanti2022/figure8");
  for (const auto& [row, technique] : std::map<std::string, std::string>{
           {"baseline", "baseline"},
           {"sequence parallel", "sequence-parallel"},
           {"full recompute", "full"},
           {"selective recompute", "selective"},
           {"selective recompute + sequence parallel", "sequence-parallel+selective"},
           {"fused attention", "fused"},
           {"fused attention + sequence parallel", "sequence-parallel+fused"}}) {
    const std::string id = "22B/" + technique;
    for (const char* pass : {"forward", "backward"})
      table4.expect(row, pass, "ms", 1000 * 1.25 * own_time(id, pass));
    table4.expect(row, "combined", "ms",
                  1000 * median_of([&](size_t i) { return both_passes(id, i); }));
    if (row != "baseline")
      table4.expect(row, "overhead", "%", median_of([&](size_t i) {
                      return 100 * both_passes(id, i) / both_passes("22B/baseline", i) - 100;
                    }));
  }
  for (const Gpt& m : gpts)
    for (const auto& [bar, ours, without] :
         {std::tuple{"full recompute", "full", "baseline"},
          {"present work", "sequence-parallel+selective", "sequence-parallel"}}) {
      const std::string row = m.name + ", " + bar, id = m.name + "/" + ours,
                        other = m.name + "/" + without;
      const auto expect = [&](const char* column, const std::function<double(size_t)>& seconds) {
        figure8.expect(row, column, "%", median_of([&](size_t i) {
                         return 100 * seconds(i) / both_passes(m.name + "/baseline", i);
                       }));
      };
      expect("forward", [&](size_t i) { return round_time(id, "forward", i); });
      expect("backward", [&](size_t i) { return round_time(other, "backward", i); });
      expect("recompute", [&](size_t i) {
        return round_time(id, "backward", i) - round_time(other, "backward", i);
      });
      expect("total", [&](size_t i) { return both_passes(id, i); });
    }
}

TEST(Cells, OfKorthikantisIterations) {
  Cells table5("korthikanti2022/table5"), replicas("korthikanti2022/section6.3-data-parallel");
  const Paper paper("korthikanti2022");
  for (const Gpt& m : gpts) {
    const std::string full = m.name + "/full", ours = m.name + "/sequence-parallel+selective";
    // The printed gain is within the rounding of times to 0.01 s, and its own to 0.1.
    const auto expect = [&](double before, double now, Source source) {
      const double gained = 100 * (before / now - 1), off = 0.005 / now;
      const auto within = [&](double rounded) {
        return source == Source::formula ? std::optional(rounded + 0.05) : std::nullopt;
      };
      table5.expect(m.name, "throughput increase", "%", gained, source,
                    within((100 + gained) * (off + 0.005 / before)));
      for (const auto& [column, core] : {std::pair{"MFU", 6}, {"HFU", 3}})
        table5.expect(m.name, column, "%", m.of_peak(core, now), source,
                      within(m.of_peak(core, now) * off));
    };
    const char *before = "full recompute", *now = "sequence parallel + selective recompute";
    table5.expect(m.name, before, "s", step_seconds(full));
    table5.expect(m.name, now, "s", step_seconds(ours));
    expect(step_seconds(full), step_seconds(ours), Source::simulated);
    expect(paper.cell("table5", m.name, before).value, paper.cell("table5", m.name, now).value,
           Source::formula);
  }
  const Gpt& m = gpts[2];
  const std::string one = "530B/sequence-parallel+selective", eight = one + "/x8";
  replicas.expect("530B x 1", "iteration", "s", step_seconds(one));
  replicas.expect("530B x 8", "iteration", "s", step_seconds(eight));
  replicas.expect("530B x 8", "MFU", "%", m.of_peak(6, step_seconds(eight), 8));
  replicas.expect("530B x 8, full recompute", "MFU", "%",
                  m.of_peak(6, step_seconds("530B/full/x8"), 8));
}

TEST(Cells, OfKorthikantisStages) {
  Cells figure1("korthikanti2022/figure1");
  for (const Gpt& m : gpts) {
    const std::string base = m.name + "/baseline", ours = m.name + "/sequence-parallel+selective";
    const auto state = [&](const std::string& id) {
      double sum = 0;
      for (int i = 0; i < m.stages; ++i)
        for (const char* kind : {"parameter", "gradient", "optimizer"})
          sum += of_stage(id, "most", kind, static_cast<size_t>(i));
      return sum / m.stages / GiB;
    };
    const auto most = [&](const std::string& id) {
      int64_t peak = 0;
      for (int i = 0; i < m.stages; ++i)
        peak = std::max(peak, stage_peak(id, static_cast<size_t>(i)));
      return static_cast<double>(peak) / GiB;
    };
    figure1.expect(m.name, "parameters and optimizer state", "GiB", state(ours));
    for (const auto& [name, id] : {std::pair{"baseline", base}, {"present work", ours}}) {
      figure1.expect(m.name, fmt::format("total, {}", name), "GiB",
                     state(id) + of_stage(id, "layers", "") / GiB);
      figure1.expect(m.name, fmt::format("most of a stage, {}", name), "GiB", most(id));
    }
  }
}

TEST(Cells, OfKorthikantisFirstStages) {
  Cells figure9("korthikanti2022/figure9"), saving("korthikanti2022/appendixB"),
      outside("korthikanti2022/section4.3");
  for (const auto& [row, id] :
       {std::pair{"no deallocation", "530B/kept-outputs"}, {"deallocation", "530B/deallocation"}})
    for (size_t rank = 0; rank < 35; ++rank)
      figure9.expect(
          row, fmt::format("rank {}", rank), "GiB",
          (of_stage(id, "at", "activation", rank) + of_stage(id, "at", "statistics", rank) +
           of_stage(id, "at", "workspace", rank)) /
              GiB);
  saving.expect("530B", "saving", "GiB",
                (of_stage("530B/kept-outputs", "most", "activation") -
                 of_stage("530B/deallocation", "most", "activation")) /
                    GiB);
  const std::string id = "22B/sequence-parallel";
  outside.expect("22B", "outside the layers", "%",
                 100 * of_stage(id, "most", "activation") / of_stage(id, "layers", "") - 100);
}

TEST(Cells, OfKorthikantisKeptMicrobatches) {
  Cells appendix("korthikanti2022/appendixC");
  for (const Gpt& m : {gpts[1], gpts[2]}) {
    const std::string none = m.name + "/sequence-parallel+selective",
                      kept = none + (m.name == "175B" ? "/21-kept" : "/69-kept");
    const double mfu = m.of_peak(6, step_seconds(kept));
    appendix.expect(m.name, "MFU", "%", mfu);
    appendix.expect(m.name, "gain", "%", mfu - m.of_peak(6, step_seconds(none)));
    // Stages have 20 of their 80 GiB before microbatches of 1 + i/8 GiB. Interleaved, stage i of p
    // with 3 chunks begins with 2 (p - i - 1) + 2 p passes, and keeps one more.
    double all = 0, share = 0;
    for (int i = 0; i < m.stages; ++i) {
      const int in_flight = 2 * (m.stages - i - 1) + 2 * m.stages + 1;
      const int whole = std::min(in_flight, static_cast<int>(60 / (1 + i / 8.0)));
      all += whole == in_flight ? 1 : 0;
      share += 100.0 * whole / in_flight / m.stages;
      if (i > 0) continue;
      appendix.expect(m.name, "in flight, first stage", "1", in_flight);
      appendix.expect(m.name, "kept whole, first stage", "1", whole);
      appendix.expect(m.name, "memory, first stage", "GiB", 20 + whole);
      appendix.expect(m.name, "memory of one more, first stage", "GiB", 1);
    }
    appendix.expect(m.name, "stages that keep all whole", "1", all);
    appendix.expect(m.name, "kept whole, mean of the stages", "%", share);
  }
}

TEST(Cells, OfMiniSequencesLengths) {
  const auto tokens = [](const std::string& id) { return 1e4 * drawn(id, "length"); };
  const auto total = [](const std::string& id) {
    return static_cast<double>(bytes(id, "total")) / GiB;
  };
  for (const char* name : {"table2", "table3", "table4", "table12", "one-h200", "eight-h100"}) {
    Cells cells(std::string("mst2024/") + name);
    for (const auto& [row, column] : cells.names()) {
      const bool anchor = column == "length" || column == "peak";
      const size_t over = column.find(" / "), at = column.find(", peak at its length");
      const auto id = [&, row = row](std::string of) {
        if (of.starts_with("length(")) of = of.substr(7, of.size() - 8) + " GPUs";
        return anchor ? row : row + "/" + of;
      };
      if (over != std::string::npos)
        cells.expect(row, column, "x",
                     tokens(id(column.substr(0, over))) / tokens(id(column.substr(over + 3))));
      else if (column == "peak" || at != std::string::npos)
        cells.expect(row, column, "GiB",
                     total(id(column.substr(0, at)) + ", at the reported length"));
      else
        cells.expect(row, column, "K tokens", tokens(id(column)) / 1000);
    }
  }
  Cells table6("mst2024/table6");
  for (const auto& [row, column] : table6.names())
    if (column == "step") table6.expect(row, column, "s", step_seconds(row));
  for (const auto& [row, column] : table6.names())
    table6.expect(row, column, "tokens/s",
                  std::stoi(row.substr(row.rfind(' '))) *
                      (row.starts_with("llama3") ? 8192 : 4096) / step_seconds(row));
}

TEST(Cells, OfMiniSequencesPeaks) {
  const auto sum = [](const std::string& id, const char* what, std::vector<const char*> of) {
    double all = 0;
    for (const char* kind : of) all += of_stage(id, what, kind) / GiB;
    return all;
  };
  const std::string vanilla = "vanilla", stepped = "optimizer in backward",
                    recomputed = "activation recomputation", mini = "mini-sequence",
                    stays = "activation recomputation, gradients stay";
  const auto held = [&](const std::string& id, const char* kind) {
    return sum(id, "held", {kind});
  };
  const auto peak = [&](const std::string& id) {
    return static_cast<double>(stage_peak(id, 0)) / GiB;
  };
  const auto passes = [&](const std::string& id) {
    return sum(id, "at", {"activation", "statistics", "workspace", "communication"});
  };
  Cells tables("mst2024/tables8-11"), eleven("mst2024/figure11"), three("mst2024/figure3");
  for (const std::string& row : {vanilla, stepped, recomputed, mini}) {
    tables.expect(row, "weight", "GiB", held(row, "parameter"));
    tables.expect(row, "optimizer state", "GiB", held(row, "optimizer"));
    tables.expect(row, "peak", "GiB", peak(row));
    if (row == vanilla) continue;
    tables.expect(row, "activation", "GiB",
                  peak(row) - held(row, "parameter") - held(row, "optimizer"));
    three.expect(row, "activation", "GiB", passes(row));
  }
  tables.expect(vanilla, "activation", "GiB", passes(stepped));
  tables.expect(vanilla, "gradient", "GiB", sum(vanilla, "most", {"gradient"}));
  tables.expect(vanilla, "optimizer intermediate", "GiB",
                sum(vanilla, "most", {"optimizer"}) - held(vanilla, "optimizer"));
  eleven.expect("standard", "peak", "GiB",
                held(stays, "parameter") + held(stays, "optimizer") +
                    sum(stays, "most", {"gradient"}) + passes(recomputed));
  eleven.expect(mini, "peak", "GiB", peak(mini));
  three.expect("llama3-8b", "vanilla / activation recomputation", "x",
               passes(stepped) / passes(recomputed));
  three.expect("llama3-8b", "activation recomputation / mini-sequence", "x",
               passes(recomputed) / passes(mini));
}

TEST(Cells, OfMiniSequencesModules) {
  for (const char* name : {"table13", "table14", "table15", "table16"}) {
    Cells module(std::string("mst2024/") + name);
    for (const auto& [row, column] : module.names()) {
      const std::string length = column.substr(0, column.find(' ')), id = row + "/" + length,
                        whole = "standard/" + length;
      const auto total = [](const std::string& of) {
        return static_cast<double>(bytes(of, "total"));
      };
      if (column.ends_with("/ standard"))
        module.expect(row, column, "x", median_of([&](size_t i) {
                        return both_passes(id, i) / both_passes(whole, i);
                      }));
      else if (column.ends_with("saving"))
        module.expect(row, column, "%", 100 - 100 * total(id) / total(whole));
      else if (name[6] == '3' || name[6] == '5')
        module.expect(row, column, "s", median_of([&](size_t i) { return both_passes(id, i); }));
      else
        module.expect(row, column, "GiB", total(id) / GiB);
    }
  }
}

TEST(Cells, OfPipelines) {
  const auto batch_of = [](const std::string& column) {
    return std::stod(column.substr(column.rfind(' ')));
  };
  for (const std::string name :
       {"figure6a", "figure6b", "figure6c", "figure10a", "figure10b", "figure10c"}) {
    Cells bars("pipedream2bw2021/" + name);
    // GPipe has 4 microbatches of GPT in the paper's memory, 8 of BERT, of 8 sequences on each of
    // 1, 8 and 4 pipelines.
    const double gpipe = (name[6] == '6' ? 4 : 8) * 8 *
                         (name.ends_with('a')   ? 1
                          : name.ends_with('b') ? 8
                                                : 4);
    for (const auto& [row, column] : bars.names())
      bars.expect(
          row, column, "seqs/s",
          (row == "GPipe" ? gpipe : batch_of(column)) / step_seconds(bars.first_case(row, column)));
  }
  for (const char* name : {"figure7", "figure11", "figure8", "figure12", "figure9"}) {
    Cells points(std::string("pipedream2bw2021/") + name);
    for (const auto& [row, column] : points.names()) {
      const std::string id = points.first_case(row, column);
      const std::string tried = id.substr(id.rfind('/') + 1);
      if (std::string_view(name) == "figure9") {  // 12 L h² (1 + 13/(12h) + (v + s)/(12Lh))
        const double l = std::stod(tried), h = 1024;
        points.expect(row, column, "billion parameters",
                      (12 * l * h * h + 13 * l * h + (50304 + 512) * h) / 1e9);
      } else if (std::string_view(name) == "figure8") {
        points.expect(row, column, "seqs/s", batch_of(column) / step_seconds(id));
      } else if (std::string_view(name) == "figure12") {  // one microbatch for each of 8 stages
        points.expect(row, column, "seqs/s", 8 * batch_of(column) / step_seconds(id));
      } else {
        points.expect(row, column, "1000 MiB",
                      static_cast<double>(bytes(id, "reserved")) / (1000.0 * 1048576));
      }
    }
  }
}

}  // namespace
}  // namespace frugal::experiments
