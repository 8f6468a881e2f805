// The configuration of each case of each artifact, by what its paper says of it.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "experiments/paper.h"
#include "harness/settings/config_json.h"
#include "harness/settings/field.h"
#include "tests/experiments/drawn.h"

namespace frugal::experiments {
namespace {

using namespace drawn_records;
using nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
int number_behind(const std::string& text, const std::string& word) {
  return std::stoi(text.substr(text.rfind(word) + word.size()));
}

/// korthikanti2022, table 3 and section 6: 8 tensor-parallel ranks, 16 bits, masks that are kept.
json of_korthikanti(const std::string& artifact, const std::string& id) {
  const Gpt& m = *std::ranges::find(gpts, id.substr(0, id.find('/')), &Gpt::name);
  const bool figure9 = artifact == "figure9" || artifact == "appendixB";
  const bool appendix = artifact == "appendixC" && !has(id, "sequence");
  json run = {{"stored_masks", true},
              {"type", "bf16"},
              {"microbatch_size", m.micro_batch},
              {"tensor_parallel_size", has(id, "serial") ? 1 : 8},
              {"sequence_parallel", has(id, "sequence") || appendix},
              {"recompute", has(id, "full") || figure9         ? "full"
                            : has(id, "selective") || appendix ? "selective"
                                                               : "none"},
              {"attention", has(id, "fused") ? "fused" : "separate"}};
  const bool iteration =
      has(artifact, "table5") || has(artifact, "6.3") || (artifact == "appendixC" && !appendix);
  if (!iteration && artifact != "figure1" && artifact != "section4.3" && !figure9 && !appendix)
    return run;  // a layer
  const int chunks = figure9 ? 1 : m.chunks;
  const int all = m.batch / m.micro_batch;
  run.update({{"pipeline_parallel_size", m.stages},
              {"chunks", chunks},
              {"schedule", chunks > 1 ? "interleaved" : "1f1b"},
              {"microbatches", iteration ? all : std::min(all, 2 * m.stages)},
              {"data_parallel_size", has(id, "/x8") ? 8 : 1},
              {"keep_outputs", has(id, "kept-outputs")},
              {"kept_microbatches",
               has(id, "-kept") && !has(id, "kept-outputs") ? number_behind(id, "/") : 0}});
  return run;
}

/// mst2024, section 5 and appendix: one sequence, all in 16 bits, fused attention; by parts of the
/// paper's rule (0).
json of_mini_sequences(const std::string& artifact, const std::string& id) {
  const bool module = artifact >= "table13" && artifact <= "table16";
  const bool anchor = has(artifact, "00"), eight = has(artifact, "eight");
  const bool mini = has(id, "mini-sequence") || has(id, "GPUs");
  const bool kept = artifact == "table4" || module || id == "vanilla" || has(id, "gradients stay");
  const bool logits = anchor && !has(id, "baseline");
  const bool mlp = has(id, "+ tiled MLP") || id.starts_with("all");
  const int parts = module && has(id, "M=") ? number_behind(id.substr(0, id.find('/')), "=") : 1;
  const bool head = artifact == "table13" || artifact == "table14";
  json run = {
      {"type", "bf16"},
      {"attention", "fused"},
      {"precision", anchor ? "mixed" : "pure"},
      {"recompute",
       !has(id, "without") && (mini || anchor || has(id, "recomputation")) ? "full" : "none"},
      {"step_in_backward", !kept},
      {"microbatches", artifact == "table4" ? 2 : 1},
      {"microbatch_size", artifact == "table6" ? number_behind(id, " ") : 1},
      {"mlp_chunks", module && !head ? parts
                     : mini || mlp   ? 0
                                     : 1},
      {"head_chunks", module && head   ? parts
                      : mini || logits ? 0
                                       : 1},
      {"offload",
       anchor && (has(id, "offload") || (!eight && has(id, "tiled MLP")) || id.starts_with("all"))},
      {"offload_optimizer", anchor}};
  const bool ulysses = eight && (has(id, "+") || id.starts_with("all")) && !id.starts_with("tiled");
  run["context_parallel_size"] = has(id, "GPUs")
                                     ? number_behind(id.substr(0, id.find(" GPUs")), "/")
                                 : ulysses ? 8
                                           : 1;
  if (run["context_parallel_size"] > 1) run["context"] = "ulysses";
  run["data_parallel_size"] = eight && !ulysses ? 8 : 1;
  return run;
}

/// pipedream2bw2021, section 5: layers computed again, masks, 16 bits that gradients are summed in.
json of_pipelines(const std::string& artifact, const std::string& id) {
  const char of = artifact.back();
  const bool six = artifact.starts_with("figure6") || artifact.starts_with("figure10");
  int depth = six && of == 'c' ? 16 : 8, width = !six ? 1 : of == 'a' ? 1 : of == 'b' ? 8 : 4;
  if (artifact == "figure8") {
    depth = number_behind(id, "=(");
    width = 64 / depth;
  }
  if (artifact == "section5.2") {
    depth = number_behind(id.substr(0, id.rfind('/')), "depth ");
    width = 64 / depth;
  }
  if (artifact == "figure9") depth = number_behind(id.substr(0, id.rfind('/')), "depth ");
  const bool tensor = id.starts_with("Tensor");
  const std::string tried = id.substr(id.rfind('/') + 1);
  const int b = artifact == "figure9" ? 1 : number_behind(tried, "b");
  const int m = artifact == "figure9"      ? depth
                : artifact == "section5.2" ? 512 / width / b
                                           : number_behind(tried, " m");
  return {{"recompute", has(id, "no recompute") ? "none" : "full"},
          {"stored_masks", true},
          {"type", "bf16"},
          {"narrow_reduction", true},
          {"tensor_parallel_size", tensor ? depth : 1},
          {"pipeline_parallel_size", tensor ? 1 : depth},
          {"data_parallel_size", width},
          {"microbatch_size", b},
          {"microbatches", m},
          {"schedule", id.starts_with("Inter")      ? "inter-layer"
                       : id.starts_with("GPipe")    ? "gpipe"
                       : tensor || has(id, "Flush") ? "1f1b"
                                                    : "2bw"}};
}

/// Name, layers, hidden size and length of the model; none where a search finds the length.
struct Sizes {
  std::string name;
  double layers, hidden;
  std::optional<int64_t> sequence;
};

Sizes sizes_of(const std::string& artifact, const std::string& id, bool mst) {
  const std::string first = id.substr(0, id.find('/'));
  if (const auto m = std::ranges::find(gpts, first, &Gpt::name); m != gpts.end())
    return {first, m->layers, m->hidden, 2048};
  if (!mst) {
    const bool large = artifact.ends_with("c") || first == "gpt-3.8b",
               bert = artifact.starts_with("figure1") && artifact != "figure12";
    if (artifact == "figure9")
      return {"gpt-355m", std::stod(id.substr(id.rfind('/') + 1)), 1024, 512};
    if (artifact == "figure8" || has(id, "1.3B")) return {"gpt-1.3b", 24, 2048, 512};
    return {fmt::format("{}-{}", bert ? "bert" : "gpt", large ? "3.8b" : "2.2b"), 32.0,
            large ? 3072.0 : 2304.0, 512};
  }
  const bool qwen = first == "qwen2-7b", gemma = first == "gemma-2-9b";
  Sizes sizes{first.find("-7b") != std::string::npos ? first.substr(0, first.find(' '))
              : gemma                                ? first
                                                     : "llama3-8b",
              qwen    ? 28.0
              : gemma ? 42.0
                      : 32.0,
              qwen || gemma ? 3584.0 : 4096.0,
              {}};
  const Paper paper("mst2024");
  const size_t at = id.find(", at the reported length");
  if (artifact >= "table13" && artifact <= "table16")
    sizes.sequence = number_behind(id, "/");
  else if (artifact == "table6")
    sizes.sequence = first.starts_with("llama3") ? 8192 : 4096;
  else if (artifact == "figure3" || artifact == "figure11" || artifact == "tables8-11")
    sizes.sequence = artifact == "figure3" ? 20000 : 4096;
  else if (at != std::string::npos)
    sizes.sequence = static_cast<int64_t>(
        1000 *
            (has(artifact, "00")
                 ? paper.cell(artifact, id.substr(0, at), "length")
                 : paper.cell(artifact, first, id.substr(first.size() + 1, at - first.size() - 1)))
                .value +
        0.5);
  return sizes;
}

TEST(Cases, RunWhatTheirPapersSay) {
  size_t cases = 0;
  for (const Artifact* artifact : all_artifacts()) {
    const std::string id = artifact->id(), paper = id.substr(0, id.find('/')),
                      name = id.substr(id.find('/') + 1);
    for (const Case& c : artifact->cases({.cpu = false, .programs = Programs::frugal})) {
      const json said = paper[0] == 'k'   ? of_korthikanti(name, c.id)
                        : paper[0] == 'm' ? of_mini_sequences(name, c.id)
                                          : of_pipelines(name, c.id);
      RunConfig same_model;
      same_model.model = c.config.model;
      json expected = to_json(same_model), run = to_json(c.config);
      expected.update(said);
      expected["global_batch"] = expected["microbatch_size"].get<int>() *
                                 expected["microbatches"].get<int>() *
                                 expected["data_parallel_size"].get<int>();
      for (const auto& [key, value] : said.items())  // keys that are not written by default
        if (!run.contains(key)) run[key] = field_of(key).usual;
      EXPECT_EQ(json::diff(expected, run).dump(), "[]") << id << ": " << c.id;
      const Sizes sizes = sizes_of(name, c.id, paper[0] == 'm');
      const ModelConfig& m = c.config.model;
      EXPECT_EQ(
          std::tuple(m.name, m.layers, m.hidden, m.sequence),
          std::tuple(sizes.name, sizes.layers, sizes.hidden, sizes.sequence.value_or(m.sequence)))
          << id << ": " << c.id;
      EXPECT_EQ(m.tied,
                paper[0] == 'k' || c.id.starts_with("Tensor") || m.name.starts_with("gemma"));
      EXPECT_EQ(c.on, paper[0] == 'k'        ? "virtual:a100-selene"
                      : paper[0] == 'p'      ? "virtual:v100-p3-16xlarge"
                      : name == "one-h200"   ? "virtual:h200-hgx"
                      : name == "eight-h100" ? "virtual:h100-dgx"
                                             : "virtual:a100-80gb");
      if (paper[0] == 'p') {  // Adam; of 2BW both versions of weights, or the steady state
        const TrainConfig& train = std::get<Training>(c.workload).train;
        const bool memory = name == "figure7" || name == "figure11" || name == "figure9";
        EXPECT_EQ(train.steps, said["schedule"] != "2bw" ? 1
                               : memory                  ? 2
                                                         : 5)
            << id << ": " << c.id;
        EXPECT_EQ(
            std::tuple(train.optimizer.kind, train.optimizer.learning_rate, train.optimizer.clip),
            std::tuple(OptimizerKind::adam, 1e-4, 0.0));
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 300U);
}

/// Smaller models keep the ratios; times are taken in float32, of four sequences in table 4.
TEST(Cases, OnAProcessorAreScaleModels) {
  const std::map<std::string, int64_t> scales = {
      {"korthikanti2022/table2", 8},   {"korthikanti2022/section4.1", 8},
      {"korthikanti2022/figure7", 32}, {"korthikanti2022/section5", 32},
      {"korthikanti2022/table4", 8},   {"mst2024/table13", 8},
      {"mst2024/table14", 8},          {"mst2024/table15", 8},
      {"mst2024/table16", 8}};
  for (const Artifact* artifact : all_artifacts()) {
    const auto scale = scales.find(artifact->id());
    const auto cases = artifact->cases({.virtual_machine = false});
    EXPECT_EQ(cases.empty(), scale == scales.end()) << artifact->id();
    const bool timed = artifact->id().ends_with("2/table4") || artifact->id().ends_with("13") ||
                       artifact->id().ends_with("15");
    for (const Case& c : cases) {
      EXPECT_EQ(c.scale, scale->second) << artifact->id();
      EXPECT_EQ(c.config.type, timed ? DType::f32 : DType::bf16) << artifact->id();
      EXPECT_EQ(c.config.micro_batch, c.id.starts_with("22B") ? 4 : 1) << artifact->id();
      const auto m = std::ranges::find(gpts, c.id.substr(0, c.id.find('/')), &Gpt::name);
      EXPECT_EQ(c.config.model.hidden * c.scale, m == gpts.end() ? 4096 : m->hidden) << c.id;
    }
  }
}

}  // namespace
}  // namespace frugal::experiments
