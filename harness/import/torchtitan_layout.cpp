#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "engine/options/layer_counts.h"
#include "harness/import/torchtitan_reader.h"
#include "kernels/support/error.h"

namespace frugal::harness {

void TorchtitanReader::read_layout() {
  const int64_t t = degree("tensor_parallel_degree", "tensor_parallel_size");
  const int64_t p = degree("pipeline_parallel_degree", "pipeline_parallel_size");
  const int64_t c = degree("context_parallel_degree", "context_parallel_size");
  if (t > 1)
    out_.assume("sequence_parallel", true,
                "torchtitan shares sequences over its tensor-parallel group");
  if (c > 1)
    out_.assume("context", "zigzag",
                "PyTorch's context parallelism, whose ranks have an early and a late part each");
  read_replicas(bounded_product({t, p, c}));
  if (p == 1) return;
  read_schedule();
  read_stages(p);
}

void TorchtitanReader::read_replicas(int64_t of_one) {
  for (const char* path : {"training.data_parallel_degree", "training.data_parallel_type"})
    if (parts_.has(path))
      parts_.fail(path,
                  "is of a version before September 2024; say data_parallel_shard_degree for "
                  "FSDP, and data_parallel_replicate_degree for DDP");
  const int64_t copies = degree("data_parallel_replicate_degree", "");
  const std::string path = path_of("data_parallel_shard_degree");
  const int64_t shards = parts_.whole(path, -1).value_or(-1);
  const std::optional<int64_t>& ranks = options_.ranks;
  if (ranks && *ranks % bounded_product({of_one, copies}) != 0)
    throw InputError(fmt::format("--world-size {}: replicas of {} ranks do not make it", *ranks,
                                 bounded_product({of_one, copies})));
  int64_t divided = shards;
  if (shards == -1) divided = ranks ? *ranks / of_one / copies : 1;
  if (divided == 0) parts_.fail(path, "is 0; it must be -1, or at least 1");
  if (const int64_t all = bounded_product({of_one, copies, divided}); ranks && all != *ranks)
    parts_.fail(
        path, fmt::format("is {}, which makes {} ranks; --world-size is {}", divided, all, *ranks));
  replicas_ = bounded_product({copies, divided});
  const bool known = shards != -1 || ranks;
  const std::string by =
      parts_.has(path) ? parts_.said(path) : "data_parallel_shard_degree = -1, by default";
  if (known)
    out_.add(by, "data_parallel_size", replicas_);
  else
    out_.assume("data_parallel_size", replicas_,
                "how many ranks there are is not said; --world-size N says it");
  // Ranks of a context share out what replicas do.
  const int64_t sharing = bounded_product({divided, size("context_parallel_size")});
  if (sharing > 1 || !known)
    out_.add(by, "shard", "weights", "FSDP2, whose parts of weights are in float32");
  else
    out_.same.push_back({by, "one rank has all weights"});
  if (copies > 1 && sharing > 1) out_.add(by, "shard_size", sharing);
  const std::string whole = path_of("data_parallel_replicate_degree");
  if (parts_.has(whole)) add(whole, "data_parallel_size", replicas_);
  read_gathering(sharing > 1);
}

void TorchtitanReader::read_gathering(bool divides) {
  const std::string path = path_of("fsdp_reshard_after_forward");
  const std::string kind = parts_.one_of(path, {"default", "always", "never"}).value_or("default");
  const bool kept =
      kind == "never" || (kind == "default" && out_.given.value("pipeline_parallel_size", 1) > 1);
  const std::string said = parts_.has(path) ? parts_.said(path) : path + ", by default";
  if (divides && kept)
    out_.missing.push_back(
        {said,
         "gathered weights stay until the backward pass: more memory, fewer collectives; frugal "
         "gathers them once more"});
  else if (parts_.has(path))
    out_.same.push_back({said, divides ? "as frugal has it" : "nothing is gathered"});
}

void TorchtitanReader::read_schedule() {
  const std::string path = path_of("pipeline_parallel_schedule");
  const std::string name = parts_.text(path).value_or("1F1B");
  struct Kind {
    std::string_view name, schedule;
  };
  constexpr std::array kinds = {Kind{"1f1b", "1f1b"},
                                Kind{"gpipe", "gpipe"},
                                Kind{"interleaved1f1b", "interleaved"},
                                Kind{"interleavedzerobubble", "interleaved-zb"},
                                Kind{"zbvzerobubble", "zb-v"},
                                Kind{"dualpipev", "dualpipe-v"}};
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const Kind& kind) { return kind.name == lower; });
  if (found == kinds.end()) {
    out_.missing.push_back({parts_.said(path), "another schedule; 1f1b stands for it"});
    return;
  }
  if (parts_.has(path))
    add(path, "schedule", std::string(found->schedule));
  else
    out_.assume("schedule", "1f1b", "torchtitan's default of pipeline_parallel_schedule");
  chunks_ = found->name == "1f1b" || found->name == "gpipe" ? 1 : 2;
}

void TorchtitanReader::read_stages(int64_t stages) {
  const std::string each = path_of("pipeline_parallel_layers_per_stage");
  const std::array ends = {path_of("pipeline_parallel_first_stage_less_layers"),
                           path_of("pipeline_parallel_last_stage_less_layers")};
  const int64_t first = parts_.whole(ends[0], 0).value_or(1);
  const int64_t last = parts_.whole(ends[1], 0).value_or(1);
  const int64_t counted = layers_ + first + last;
  if (const auto layers = parts_.whole(each)) {
    const int64_t parts = (counted + *layers - 1) / *layers;
    if (parts % stages != 0 || (parts / stages == 1) != (chunks_ == 1))
      parts_.fail(each, fmt::format("is {}, which makes {} parts of {} layers for {} stages; "
                                    "change one, or pipeline_parallel_schedule",
                                    *layers, parts, counted, stages));
    chunks_ = parts / stages;
    out_.mapped.push_back({parts_.said(each), fmt::format("{} parts a stage", chunks_)});
  }
  if (chunks_ > 1) out_.add(fmt::format("{} parts a stage", chunks_), "chunks", chunks_);
  const int64_t parts = stages * chunks_;
  std::vector<int64_t> layers(static_cast<size_t>(parts), counted / parts);
  for (int64_t i = 0; i < counted % parts; ++i) ++layers[static_cast<size_t>(i)];
  layers.front() -= first;
  layers.back() -= last;
  if (const int64_t fewest = *std::min_element(layers.begin(), layers.end()); fewest < 1)
    throw InputError(
        fmt::format("{}: {} layers on {} stages of {} parts leave one with {}; give --stage-layers",
                    file_, layers_, stages, chunks_, fewest));
  const std::string text = text_of_layer_counts(layers);
  bool said = false;
  for (const std::string& end : ends)
    if (parts_.has(end)) {
      add(end, "stage_layers", text);
      said = true;
    }
  const bool equal = std::all_of(layers.begin(), layers.end(),
                                 [&](int64_t count) { return count == layers.front(); });
  if (!said && !equal)
    out_.assume("stage_layers", text,
                "torchtitan counts the embedding and the output layer as a layer each");
}

}  // namespace frugal::harness
