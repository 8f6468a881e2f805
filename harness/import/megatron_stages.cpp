#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "engine/config.h"
#include "engine/options/layer_counts.h"
#include "engine/options/rules.h"
#include "harness/import/megatron_reader.h"

/// Divides layers among the stages of a pipeline, by the rules of Megatron-LM and its forks.
namespace frugal::harness {
namespace {

constexpr const char* with_embedding = "--account-for-embedding-in-pipeline-split";
constexpr const char* with_loss = "--account-for-loss-in-pipeline-split";
constexpr const char* first_layers = "--decoder-first-pipeline-num-layers";
constexpr const char* last_layers = "--decoder-last-pipeline-num-layers";
constexpr const char* layout_name = "--pipeline-model-parallel-layout";
constexpr const char* by_type = "--pp-partition-method";
constexpr const char* group_name = "--microbatch-group-size-per-virtual-pipeline-stage";

/// Writes out the repetitions of a layout: "Et*2|(tL)" is "Ett|tL". None where it is no layout, or
/// too long.
class LayoutText {
 public:
  explicit LayoutText(std::string_view text) : rest_(text) {}

  std::optional<std::string> written_out() {
    auto all = sequence();
    return rest_.empty() ? all : std::nullopt;
  }

 private:
  std::optional<std::string> sequence() {
    std::string all;
    while (!rest_.empty() && rest_.front() != ')') {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == ',') continue;
      std::optional<std::string> one(std::string(1, c));
      if (c == '(') {
        if (++depth_ > 16) return std::nullopt;
        one = sequence();
        if (!one || rest_.empty()) return std::nullopt;
        rest_.remove_prefix(1);
        --depth_;
      } else if (c != 'E' && c != 't' && c != 'L' && c != '|') {
        return std::nullopt;
      }
      for (int64_t times = repetitions(); times > 0; --times) {
        all += *one;
        if (std::ssize(all) > 4 * engine::rules::most_layers) return std::nullopt;
      }
    }
    return all;
  }
  /// The number behind a star; 1 where there is none.
  int64_t repetitions() {
    if (rest_.empty() || rest_.front() != '*') return 1;
    rest_.remove_prefix(1);
    int64_t times = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      times = std::min(10 * times + (rest_.front() - '0'), engine::rules::most_layers);
      rest_.remove_prefix(1);
    }
    return times;
  }
  std::string_view rest_;
  int depth_ = 0;  ///< of parentheses
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == '|')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

}  // namespace

int64_t MegatronReader::divided_layers() const {
  return size("layers") + (on(with_embedding) ? 1 : 0) + (on(with_loss) ? 1 : 0);
}

void MegatronReader::read_chunks() {
  const char* const of_layers = "--num-layers-per-virtual-pipeline-stage";
  const char* const of_stages = "--num-virtual-stages-per-pipeline-rank";
  const char* const name = has(of_layers) ? of_layers : of_stages;
  if (!has(name)) return;
  if (has(layout_name)) fail(fmt::format("{} and {} exclude each other", said(name), layout_name));
  int64_t chunks = count(name).value_or(1);
  if (has(of_layers)) {
    const int64_t stages = size("pipeline_parallel_size"), layers = divided_layers();
    if (layers % stages != 0 || layers / stages % chunks != 0)
      fail(fmt::format("{}: it must divide the layers of a stage, {} / {}", said(name), layers,
                       stages));
    chunks = layers / stages / chunks;
  }
  if (chunks == 1) {
    out.same.push_back({said(name), "a stage has one part"});
    return;
  }
  out.add(said(name), "chunks", chunks);
  out.add(said(name), "schedule", "interleaved");
}

void MegatronReader::read_stages() {
  std::vector<const char*> by;
  for (const char* name : {layout_name, by_type, first_layers, last_layers})
    if (has(name)) by.push_back(name);
  for (const char* name : {with_embedding, with_loss})
    if (has(name)) {
      if (on(name))
        by.push_back(name);
      else
        out.same.push_back({said(name), "it is off"});
    }
  if (by.empty()) return;
  const std::string_view first = by.front();
  const bool ends = first == first_layers, alone = first == layout_name || first == by_type;
  for (const std::string_view other : by)
    if (other != first && (alone || (ends || first == last_layers) != (other == last_layers)))
      fail(fmt::format("{} and {} exclude each other", said(first), said(other)));
  if (size("pipeline_parallel_size") == 1) {
    for (const char* name : by) out.same.push_back({said(name), "there is one stage"});
    return;
  }
  if (first == layout_name) {
    read_layout_of_stages();
    return;
  }
  const std::vector<int64_t> counts = first == by_type ? counts_by_type() : counts_by_ends();
  if (counts.empty()) return;
  for (const char* name : by) out.add(said(name), "stage_layers", text_of_layer_counts(counts));
}

/// Layers of stages: the first and last as given, or embedding and loss counted as a layer each.
std::vector<int64_t> MegatronReader::counts_by_ends() {
  const int64_t stages = size("pipeline_parallel_size"), chunks = size("chunks");
  const auto first = count(first_layers), last = count(last_layers);
  const std::string by = said(first                ? first_layers
                              : last               ? last_layers
                              : on(with_embedding) ? with_embedding
                                                   : with_loss);
  const auto impossible = [&] {
    fail(fmt::format("{}: {} layers{} cannot be divided so among {} stages{}", by, divided_layers(),
                     divided_layers() > size("layers") ? ", with those that count as one," : "",
                     stages, chunks > 1 ? fmt::format(" of {} parts each", chunks) : ""));
  };
  const int64_t given = (first ? 1 : 0) + (last ? 1 : 0);
  const int64_t between = divided_layers() - first.value_or(0) - last.value_or(0);
  const int64_t others = stages - given;
  if (between < 0 || (others == 0 ? between != 0 : between % others != 0)) impossible();
  std::vector<int64_t> of_stage(static_cast<size_t>(stages), others > 0 ? between / others : 0);
  if (first) of_stage.front() = *first;
  if (last) of_stage.back() = *last;
  std::vector<int64_t> counts;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (const int64_t layers : of_stage) {
      if (layers % chunks != 0) impossible();
      counts.push_back(layers / chunks);
    }
  counts.front() -= on(with_embedding) ? 1 : 0;
  counts.back() -= on(with_loss) ? 1 : 0;
  if (counts.front() < 0 || counts.back() < 0) impossible();
  return counts;
}

/// DeepSpeed's division of the modules whose names match: layers, and the embedding at the model's
/// beginning, which tied tables have at its end, too.
std::vector<int64_t> MegatronReader::counts_by_type() {
  const std::string method = lower(*text(by_type));
  const bool ends =
      method == "type:transformer|embedding" || method == "type:embedding|transformer";
  if (!ends && method != "type:transformer") {
    miss(by_type,
         "a division by modules that frugal does not count so; --stage-layers says how many layers "
         "each stage has");
    return {};
  }
  const int64_t stages = size("pipeline_parallel_size"), layers = size("layers");
  const bool tied = !has("--untie-embeddings-and-output-weights");
  const int64_t all = layers + (ends ? 1 : 0) + (ends && tied ? 1 : 0);
  if (all % stages != 0 || all / stages < 2 || size("chunks") > 1)
    fail(
        fmt::format("{}: {} modules cannot be divided equally among {} stages of one part, and "
                    "DeepSpeed's versions differ in what they do then; give --stage-layers",
                    said(by_type), all, stages));
  std::vector<int64_t> counts(static_cast<size_t>(stages), all / stages);
  counts.front() -= ends ? 1 : 0;
  counts.back() -= ends && tied ? 1 : 0;
  return counts;
}

void MegatronReader::read_layout_of_stages() {
  const int64_t stages = size("pipeline_parallel_size");
  const auto all = LayoutText(*text(layout_name)).written_out();
  const std::vector<std::string> parts = parts_of(all.value_or(""));
  const int64_t chunks = std::ssize(parts) / stages;
  std::vector<int64_t> counts;
  for (const std::string& part : parts) counts.push_back(std::count(part.begin(), part.end(), 't'));
  if (!all || std::ssize(parts) % stages != 0 ||
      std::accumulate(counts.begin(), counts.end(), int64_t{0}) != size("layers") ||
      std::count(all->begin(), all->end(), 'E') != 1 || parts.front().find('E') != 0 ||
      std::count(all->begin(), all->end(), 'L') != 1 || all->back() != 'L')
    fail(
        fmt::format("{}: it must have {} layers t in a multiple of {} parts with | between them, "
                    "E first of all and L last, such as Et*2|t*2|tL",
                    said(layout_name), size("layers"), stages));
  if (chunks > 1) {
    out.add(said(layout_name), "chunks", chunks);
    out.add(said(layout_name), "schedule", "interleaved");
  }
  out.add(said(layout_name), "stage_layers", text_of_layer_counts(counts));
}

/// Reads the size of the groups in which microbatches go through all parts of a stage.
void MegatronReader::read_groups() {
  if (!has(group_name)) return;
  const int64_t stages = size("pipeline_parallel_size"), microbatches = size("microbatches");
  if (size("chunks") == 1) {
    out.same.push_back({said(group_name), "a stage has one part"});
    return;
  }
  const int64_t group = *count(group_name);
  if (group < stages || group > microbatches)
    fail(fmt::format("{}: it must be from the stages, {}, to the microbatches, {}",
                     said(group_name), stages, microbatches));
  // frugal's are as many as fit, of sizes that differ by one at most.
  const int64_t rounds = std::max<int64_t>(microbatches / stages, 1);
  const int64_t largest = (microbatches + rounds - 1) / rounds;
  const int64_t last = microbatches - group * ((microbatches - 1) / group);
  if (group == largest && last >= group - 1 && (microbatches + group - 1) / group == rounds)
    out.add(said(group_name), "schedule", "interleaved", "in the same groups");
  else
    miss(group_name,
         fmt::format("frugal's groups are of {}: {} activations of a part fewer in flight on every "
                     "stage",
                     largest, (size("chunks") - 1) * (group - largest)));
}

}  // namespace frugal::harness
