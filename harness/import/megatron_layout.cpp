#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "engine/config.h"
#include "engine/options/rules.h"
#include "harness/import/megatron_reader.h"
#include "harness/settings/value_type.h"
#include "kernels/support/error.h"

/// What several of Megatron-LM's arguments together say of how ranks share the work, and of how
/// attention is computed.
namespace frugal::harness {

void MegatronReader::read_layout() {
  const char* const sequence = "--sequence-parallel";
  if (has(sequence)) {
    if (size("tensor_parallel_size") > 1 && on(sequence))
      out.add(said(sequence), "sequence_parallel", true);
    else
      out.same.push_back({said(sequence), "it is of no effect with one tensor-parallel rank"});
  }
  read_chunks();
  read_stages();
  read_context();
}

/// How many ranks exchange heads within a ring of groups of them.
void MegatronReader::read_two_dimensions(bool used) {
  const char* const name = "--hierarchical-context-parallel-sizes";
  if (!has(name)) {
    if (used) fail(fmt::format("{} needs {}, which is missing", said("--cp-comm-type"), name));
    return;
  }
  std::vector<int64_t> sizes;
  for (const std::string& value : texts(name))
    sizes.push_back(whole_number(1, rules::most_ranks)
                        .value(fmt::format("{}: {}", file_, name), value)
                        .get<int64_t>());
  if (sizes.size() != 2 || bounded_product({sizes[0], sizes[1]}) != size("context_parallel_size"))
    fail(fmt::format("{}: it must be two sizes whose product is the context-parallel size ({})",
                     said(name), size("context_parallel_size")));
  if (used)
    out.add(said(name), "ulysses_size", sizes[0], "the others are those of a ring");
  else
    out.same.push_back({said(name), "it is of --cp-comm-type a2a+p2p"});
}

void MegatronReader::read_context() {
  const char* const name = "--cp-comm-type";
  if (size("context_parallel_size") == 1) {
    for (const char* all : {name, "--hierarchical-context-parallel-sizes"})
      if (has(all)) out.same.push_back({said(all), "no ranks share a sequence"});
    return;
  }
  std::vector<std::string> kinds = texts(name);
  if (kinds.empty()) kinds = {"p2p"};
  for (std::string& kind : kinds) {
    kind = lower(kind);
    if (kind != "p2p" && kind != "a2a" && kind != "allgather" && kind != "a2a+p2p")
      fail(fmt::format("{}: it must be one of p2p, a2a, allgather, a2a+p2p", said(name)));
  }
  const bool one =
      std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind == kinds[0]; });
  const bool two_dimensions = one && kinds[0] == "a2a+p2p";
  read_two_dimensions(two_dimensions);
  if (one && kinds[0] == "a2a") {
    out.add(said(name), "context", "ulysses");
    return;
  }
  // Each rank has an early and a late part, which is of no effect where attention is not causal.
  const bool causal = !out.given.contains("causal") || out.given.at("causal") == true;
  const char* const kind = causal ? "zigzag" : "ring";
  if (two_dimensions || (one && kinds[0] == "p2p")) {
    derive(name, "context", kind, has(name) ? "" : "Megatron-LM's default of --cp-comm-type");
    return;
  }
  out.assume("context", kind, fmt::format("stands in for {}", said(name)));
  out.missing.push_back(
      {said(name),
       "keys and values are gathered, or layers differ; in frugal they travel around a ring in "
       "all"});
}

/// Replicas of the pipeline, of as many ranks as there are.
int64_t MegatronReader::replicas() {
  const std::optional<int64_t> ranks = options_.ranks ? options_.ranks : list_.ranks;
  const int64_t of_one =
      size("tensor_parallel_size") * size("pipeline_parallel_size") * size("context_parallel_size");
  if (!ranks && !list_.ranks_unknown.empty() && !is_given("data_parallel_size"))
    fail(fmt::format("how many ranks there are is not said: {}; give --world-size N",
                     list_.ranks_unknown));
  if (!ranks) {
    out.assume("data_parallel_size", 1,
               "how many ranks there are is not said; --world-size N says it");
    return 1;
  }
  if (*ranks % of_one != 0)
    fail(fmt::format(
        "{} ranks do not make replicas of {} (tensor {} x pipeline {} x context {}); give "
        "--world-size N, or --set for the variable that says how many there are",
        *ranks, of_one, size("tensor_parallel_size"), size("pipeline_parallel_size"),
        size("context_parallel_size")));
  out.add(options_.ranks ? fmt::format("--world-size {}", *ranks) : fmt::format("{} ranks", *ranks),
          "data_parallel_size", *ranks / of_one);
  return *ranks / of_one;
}

/// What ranks that have the same weights divide, replicas and parts of a sequence together.
void MegatronReader::read_shard() {
  const char* const stage = "--zero-stage";
  const char* const strategy = "--data-parallel-sharding-strategy";
  const bool fsdp = on("--use-megatron-fsdp") || on("--use-custom-fsdp");
  std::string what;
  for (const char* all : {"--use-torch-fsdp2", "--use-megatron-fsdp", "--use-custom-fsdp"})
    if (on(all)) what = "weights";
  if (const auto said_strategy = text(strategy); said_strategy && fsdp) {
    const std::map<std::string, std::string> names = {{"no_shard", "none"},
                                                      {"optim", "optimizer"},
                                                      {"optim_grads", "gradients"},
                                                      {"optim_grads_params", "weights"}};
    const auto found = names.find(lower(*said_strategy));
    if (found == names.end())
      fail(fmt::format("{}: it must be no_shard, optim, optim_grads or optim_grads_params",
                       said(strategy)));
    what = found->second;
  }
  if (what.empty() && on("--use-distributed-optimizer")) what = "optimizer";
  if (const auto number = text(stage); number && number != "0") {
    if (count(stage) > 3) fail(fmt::format("{}: it must be from 0 to 3", said(stage)));
    what = name_of(static_cast<engine::Shard>(*count(stage)));
  }
  for (const char* name : {"--use-distributed-optimizer", "--use-torch-fsdp2",
                           "--use-megatron-fsdp", "--use-custom-fsdp", strategy, stage}) {
    if (!has(name)) continue;
    if (name == strategy && !fsdp)
      out.same.push_back({said(name), "it is Megatron-FSDP's, which is off"});
    else if (what.empty())
      out.same.push_back({said(name), "nothing is divided"});
    else
      out.add(said(name), "shard", what);
  }
  read_instances(what);
  read_overlap(what);
}

/// Time at which replicas sum gradients: behind the last backward pass, unless they are told to do
/// so beside it. `what`: that replicas divide.
void MegatronReader::read_overlap(const std::string& what) {
  const char* const name = "--overlap-grad-reduce";
  const char* const key = "overlap_grad_reduce";
  if (size("data_parallel_size") == 1 || (!what.empty() && what != "optimizer")) {
    if (has(name)) out.same.push_back({said(name), "no replicas sum whole gradients"});
  } else if (!on(name)) {
    derive(name, key, false, has(name) ? "" : "Megatron-LM's default");
  } else if (has("--grad-reduce-in-bf16")) {
    miss(name,
         "replicas sum gradients beside the last backward pass; frugal, which rounds them first, "
         "would hold 2 bytes more of each meanwhile, and sums behind it; overlap_grad_reduce=true "
         "does as Megatron-LM");
  } else {
    out.add(said(name), key, true);
  }
}

/// Reads the number of optimizer instances; each divides its state among ranks of its own.
void MegatronReader::read_instances(const std::string& what) {
  const char* const name = "--num-distributed-optimizer-instances";
  const int64_t instances = count(name).value_or(1);
  if (!has(name)) return;
  if (instances == 1 || what.empty()) {
    out.same.push_back({said(name), what.empty() ? "nothing is divided" : "there is one"});
    return;
  }
  const int64_t ranks = size("data_parallel_size") * size("context_parallel_size");
  if (ranks % instances != 0)
    fail(fmt::format(
        "{}: it must divide the ranks that have the same weights, {}{}", said(name), ranks,
        options_.ranks || list_.ranks ? "" : "; --world-size N says how many there are"));
  out.add(said(name), "shard_size", ranks / instances,
          fmt::format("of {} ranks that have the same weights", ranks));
}

void MegatronReader::read_batch() {
  const char* const name = "--global-batch-size";
  const int64_t all_replicas = replicas();
  const int64_t of_all = bounded_product({size("microbatch_size"), all_replicas});
  read_shard();
  const char* const steps = "--step-batch-size-schedule";
  const auto global = count(name);
  if (!global && has(steps))
    fail(fmt::format("{} has several batches; give the one that counts by --global-batch-size",
                     said(steps)));
  if (has(steps)) miss(steps, "batches of other sizes; what is run is a step of the one");
  if (!global) {
    out.assume("microbatches", 1, "Megatron-LM's default of --global-batch-size");
    return;
  }
  if (*global % of_all != 0)
    fail(fmt::format("{} is no multiple of --micro-batch-size x replicas, {} x {}", said(name),
                     size("microbatch_size"), of_all / size("microbatch_size")));
  out.add(said(name), "microbatches", *global / of_all,
          fmt::format("of each of {} replicas", of_all / size("microbatch_size")));
}

/// Whether the list is of a time before attention was fused without being asked for.
bool MegatronReader::is_old() const {
  constexpr std::array names = {"--DDP-impl",
                                "--checkpoint-activations",
                                "--activations-checkpoint-method",
                                "--activations-checkpoint-num-layers",
                                "--checkpoint-num-layers",
                                "--model-parallel-size",
                                "--deepspeed"};
  return std::any_of(list_.all.begin(), list_.all.end(), [&](const Argument& argument) {
    return std::find(names.begin(), names.end(), argument.name) != names.end();
  });
}

bool MegatronReader::is_core() const {
  constexpr std::array names = {
      "--use-mcore-models",  "--transformer-impl",     "--attention-backend",
      "--ckpt-format",       "--dist-ckpt-strictness", "--no-create-attention-mask-in-dataloader",
      "--deterministic-mode"};
  return !is_old() && std::any_of(names.begin(), names.end(), [&](const char* name) {
    const Argument* const argument = find(name);
    return argument != nullptr &&
           (argument->values.empty() || lower(argument->values.front()) != "false");
  });
}

bool MegatronReader::is_local() const {
  const auto spec = texts("--spec");
  return word("--transformer-impl", {"local", "transformer_engine", "inference_optimized"}, "") ==
             "local" ||
         (!spec.empty() && spec.front() == "local");
}

void MegatronReader::read_attention() {
  const char* const backend = "--attention-backend";
  const char* const flash = "--use-flash-attn";
  const char* const made_by = "--transformer-impl";
  const std::string kind = word(backend, {"flash", "fused", "unfused", "local", "auto"}, "auto");
  const std::string maker =
      word(made_by, {"local", "transformer_engine", "inference_optimized"}, "");
  const bool separate = kind == "unfused" || kind == "local" || (maker == "local" && !on(flash));
  if (is_given("attention")) {
    for (const char* name : {backend, flash, made_by})
      if (has(name)) out.same.push_back({said(name), "--attention takes precedence"});
    return;
  }
  const char* by = nullptr;
  for (const char* name : {made_by, flash, backend})
    if (has(name)) by = name;
  if (by == nullptr && is_old()) {
    out.assume("attention", "separate",
               "the list is older than fused attention by default; --attention fused otherwise");
    return;
  }
  const nlohmann::json value = separate ? "separate" : "fused";
  if (by == nullptr) {
    out.assume("attention", value, "Megatron-LM's default; --attention separate otherwise");
    return;
  }
  out.add(said(by), "attention", value);
  for (const char* name : {made_by, flash, backend})
    if (has(name) && name != by) out.add(said(name), "attention", value);
}

void MegatronReader::read_scores() {
  const nlohmann::json& attention =
      is_given("attention") ? options_.given.at("attention") : out.given.at("attention");
  for (const char* name : {"--attention-softmax-in-fp32", "--apply-query-key-layer-scaling"})
    if (has(name)) {
      if (attention == "fused" || !on(name))
        out.same.push_back({said(name), "fused attention has no scores in memory"});
      else
        miss(name, "scores in float32 for their softmax, 4 bytes each");
    }
}

}  // namespace frugal::harness
