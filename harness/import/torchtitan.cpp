#include "harness/import/torchtitan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

// Only this file reads TOML: its parser is a header. That a key begins behind "[" it first asserts,
// and then reports as an error; without this only the latter.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

#include "harness/import/nested_parts.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// A model that torchtitan knows by name (torchtitan/models/llama3).
struct Flavor {
  std::string_view name;
  int64_t layers, hidden, heads, groups, intermediate;
};
constexpr std::array llama3_flavors = {Flavor{"8B", 32, 4096, 32, 8, 14336},
                                       Flavor{"70B", 80, 8192, 64, 8, 28672},
                                       Flavor{"405B", 126, 16384, 128, 8, 53248}};
constexpr int64_t llama3_tokens = 128256;

const std::vector<KnownParts>& torchtitan_without_effect() {
  static const std::vector<KnownParts> all = {
      {{"job.*", "metrics.*", "profiling.*", "comm.*", "model.tokenizer_path",
        "model.hf_assets_path", "model.print_after_conversion"},
       "what is reported, and how processes find each other"},
      {{"checkpoint.*", "validation.*", "fault_tolerance.*", "memory_estimation.*"},
       "what lies between steps"},
      {{"training.dataset", "training.dataset_path", "training.steps", "training.warmup_steps",
        "training.gc_freq", "training.data_parallel_type", "training.gc_debug", "lr_scheduler.*",
        "optimizer.*"},
       "which data is read, how long the training is, or a number of the optimizer"}};
  return all;
}

const std::vector<KnownParts>& torchtitan_missing() {
  static const std::vector<KnownParts> all = {
      {{"training.compile", "compile.*"}, "kernels that a compiler fuses: fewer bytes moved"},
      {{"float8.*", "training.enable_float8_linear", "training.enable_fp8_linear", "quantize.*",
        "mx.*", "model.converters"},
       "products in 8 bits: up to twice their speed; frugal computes them in 16 bits"},
      {{"parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"},
       "collectives of tensor parallelism beside its products"},
      {{"parallelism.fsdp_reshard_after_forward", "parallelism.enable_compiled_autograd",
        "experimental.enable_compiled_autograd", "training.enable_cpu_offload",
        "parallelism.disable_loss_parallel", "parallelism.expert_*"},
       "how weights, gradients and activations are divided, gathered and kept"},
      {{"parallelism.context_parallel_rotate_method",
        "experimental.context_parallel_rotate_method"},
       "how keys and values come to all ranks"},
      {{"parallelism.pipeline_parallel_*", "experimental.pipeline_parallel_*"},
       "how layers are divided into stages"},
      {{"activation_checkpoint.*"}, "which operations are computed again"},
      {{"training.deterministic", "debug.*"}, "slower algorithms of the same operations"},
      {{"training.mixed_precision_reduce", "training.dtype"},
       "the type of gradients, or of weights"}};
  return all;
}

nlohmann::json json_of_toml(const std::string& text, const std::string& file) {
  try {
    std::ostringstream out;
    const toml::table table = toml::parse(text);
    out << toml::json_formatter(table);
    return nlohmann::json::parse(out.str());
  } catch (const toml::parse_error& error) {
    throw InputError(
        fmt::format("{}, line {}: {}", file, error.source().begin.line, error.description()));
  }
}

class Torchtitan {
 public:
  Torchtitan(const std::string& text, const std::string& file, const ImportOptions& options)
      : options_(options), parts_(json_of_toml(text, file), file), file_(file) {}

  Imported read() {
    out_.format = "torchtitan";
    out_.fix(options_.given);
    read_model();
    read_layout();
    read_batch();
    read_training();
    read_recomputation();
    std::vector<std::string> off;
    if (!parts_.has("model.converters") && !parts_.is_on("float8.enable_float8_linear"))
      off = {"float8"};
    parts_.rest(torchtitan_without_effect(), torchtitan_missing(), out_, off);
    return std::move(out_);
  }

 private:
  void add(std::string_view path, const std::string& key, const nlohmann::json& value,
           const std::string& note = "") {
    out_.add(parts_.said(path), key, value, note);
  }
  /// A degree of parallelism, wherever its version has it; 1 where it is not said.
  int64_t degree(const std::string& name, const std::string& key) {
    const std::string path =
        parts_.first({"parallelism." + name, "experimental." + name, "training." + name});
    const auto size = parts_.whole(path);
    if (size && !key.empty()) add(path, key, *size);
    return key.empty() ? size.value_or(1) : out_.given.value(key, int64_t{1});
  }

  void read_model() {
    if (options_.given.contains("model")) {
      for (const char* path : {"model.name", "model.flavor"}) {
        if (parts_.has(path)) out_.same.push_back({parts_.said(path), "--model takes precedence"});
        parts_.take(path);
      }
    } else {
      read_flavor();
    }
    if (const auto norm = parts_.text("model.norm_type");
        norm && norm->find("rms") == std::string::npos)
      add("model.norm_type", "norm", "layer-norm");
    else if (norm)
      add("model.norm_type", "norm", "rms-norm");
    if (const auto tokens = parts_.whole("training.seq_len"))
      add("training.seq_len", "sequence_length", *tokens);
    else
      out_.assume("sequence_length", 2048, "torchtitan's default of training.seq_len");
    if (!options_.given.contains("attention"))
      out_.assume("attention", "fused", "PyTorch's scaled_dot_product_attention");
  }
  void read_flavor() {
    const std::string name = parts_.text("model.name").value_or("");
    const std::string flavor = parts_.text("model.flavor").value_or("");
    std::vector<std::string_view> known;
    for (const Flavor& one : llama3_flavors) known.push_back(one.name);
    const auto found = std::find_if(llama3_flavors.begin(), llama3_flavors.end(),
                                    [&](const Flavor& one) { return one.name == flavor; });
    if (name != "llama3" || found == llama3_flavors.end())
      throw InputError(
          fmt::format("{}: model.name is \"{}\" and model.flavor \"{}\"; known are llama3 of {}; "
                      "give --model for another",
                      file_, name, flavor, fmt::join(known, ", ")));
    out_.add(parts_.said("model.name"), "norm", "rms-norm");
    for (const auto& [key, value] :
         std::vector<std::pair<const char*, nlohmann::json>>{{"mlp", "swiglu"},
                                                             {"bias", "none"},
                                                             {"positions", "rotary"},
                                                             {"tied_embeddings", false},
                                                             {"dropout", 0.0},
                                                             {"vocabulary_size", llama3_tokens},
                                                             {"rotary", {{"base", 500000.0}}}})
      add("model.name", key, value);
    for (const auto& [key, value] : {std::pair{"layers", found->layers},
                                     {"hidden_size", found->hidden},
                                     {"attention_heads", found->heads},
                                     {"key_value_heads", found->groups},
                                     {"intermediate_size", found->intermediate}})
      add("model.flavor", key, value);
  }

  void read_layout() {
    const int64_t t = degree("tensor_parallel_degree", "tensor_parallel_size");
    const int64_t p = degree("pipeline_parallel_degree", "pipeline_parallel_size");
    const int64_t c = degree("context_parallel_degree", "context_parallel_size");
    if (t > 1)
      out_.assume("sequence_parallel", true,
                  "torchtitan shares sequences over its tensor-parallel group");
    if (c > 1) out_.assume("context", "ring", "PyTorch's context parallelism");
    read_replicas(bounded_product({t, p, c}));
    read_schedule(p);
  }
  void read_replicas(int64_t of_one) {
    const int64_t copies = degree("data_parallel_replicate_degree", "");
    const std::string path = parts_.first({"parallelism.data_parallel_shard_degree",
                                           "experimental.data_parallel_shard_degree",
                                           "training.data_parallel_shard_degree"});
    const int64_t shards = parts_.whole(path, -1).value_or(-1);
    if (options_.ranks && *options_.ranks % bounded_product({of_one, copies}) != 0)
      throw InputError(fmt::format("--world-size {}: replicas of {} ranks do not make it",
                                   *options_.ranks, bounded_product({of_one, copies})));
    int64_t divided = shards;
    if (shards == -1) divided = options_.ranks ? *options_.ranks / of_one / copies : 1;
    if (divided == 0) parts_.fail(path, "is 0; it must be -1, or at least 1");
    if (const int64_t all = bounded_product({of_one, copies, divided});
        options_.ranks && all != *options_.ranks)
      parts_.fail(path, fmt::format("is {}, which makes {} ranks; --world-size is {}", divided, all,
                                    *options_.ranks));
    replicas_ = bounded_product({copies, divided});
    const std::string how = parts_.said(path);
    if (shards == -1 && !options_.ranks)
      out_.assume("data_parallel_size", replicas_,
                  "how many ranks there are is not said; --world-size N says it");
    else
      out_.add(how.empty() ? fmt::format("--world-size {}", *options_.ranks) : how,
               "data_parallel_size", replicas_);
    // Ranks of a context share out what replicas do.
    const int64_t sharing =
        bounded_product({divided, out_.given.value("context_parallel_size", int64_t{1})});
    if (sharing > 1)
      out_.divided = {
          how.empty() ? "FSDP" : how, sharing, {Kind::parameter, Kind::gradient, Kind::optimizer}};
    out_.missing.push_back(
        {how.empty() ? "data_parallel_shard_degree = -1, by default" : how,
         fmt::format("float32 weights, gradients and optimizer state (16 bytes a weight) divided "
                     "by {} and gathered in bf16; frugal keeps 18 bytes a weight on each rank",
                     shards == -1 && !options_.ranks ? "the ranks" : std::to_string(divided))});
    const std::string whole = parts_.first({"parallelism.data_parallel_replicate_degree",
                                            "experimental.data_parallel_replicate_degree",
                                            "training.data_parallel_replicate_degree"});
    if (parts_.has(whole)) add(whole, "data_parallel_size", replicas_);
  }
  void read_schedule(int64_t stages) {
    const std::string path = parts_.first(
        {"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
    const auto name = parts_.text(path);
    if (!name) return;
    if (stages == 1)
      out_.same.push_back({parts_.said(path), "there is one stage"});
    else if (*name == "1F1B" || *name == "1f1b")
      add(path, "schedule", "1f1b");
    else if (*name == "GPipe" || *name == "gpipe")
      add(path, "schedule", "gpipe");
    else if (*name == "Interleaved1F1B") {
      add(path, "schedule", "interleaved");
      add(path, "chunks", 2, "two parts a stage");
    } else
      out_.missing.push_back({parts_.said(path), "another schedule; 1f1b stands for it"});
  }

  void read_batch() {
    const std::string local = parts_.first({"training.local_batch_size", "training.batch_size"});
    const int64_t of_replica = parts_.whole(local).value_or(8);
    const std::string part = parts_.first({"parallelism.pipeline_parallel_microbatch_size",
                                           "experimental.pipeline_parallel_microbatch_size"});
    const bool pipeline = out_.given.value("pipeline_parallel_size", int64_t{1}) > 1;
    const int64_t size = pipeline ? parts_.whole(part).value_or(1) : of_replica;
    if (!pipeline && parts_.has(part)) {
      out_.same.push_back({parts_.said(part), "there is one stage"});
      parts_.take(part);
    }
    if (of_replica % size != 0)
      parts_.fail(local, fmt::format("is {}, no multiple of {}", of_replica, size));
    const auto global = parts_.whole("training.global_batch_size", -1);
    int64_t steps = 1;
    if (global && *global > 0) {
      if (*global % bounded_product({of_replica, replicas_}) != 0)
        parts_.fail("training.global_batch_size",
                    fmt::format("is {}, no multiple of {} sequences x {} replicas", *global,
                                of_replica, replicas_));
      steps = *global / bounded_product({of_replica, replicas_});
      add("training.global_batch_size", "microbatches", of_replica / size * steps);
    } else if (global) {
      out_.same.push_back(
          {parts_.said("training.global_batch_size"), "no gradients are accumulated"});
    }
    if (!parts_.has(local)) {
      out_.assume("microbatch_size", size,
                  "torchtitan's default of training.local_batch_size is 8");
      out_.given["microbatches"] = of_replica / size * steps;
      return;
    }
    add(local, "microbatch_size", size);
    add(local, "microbatches", of_replica / size * steps);
  }

  void read_training() {
    const auto computed = parts_.text("training.mixed_precision_param");
    if (computed && *computed == "float32")
      add("training.mixed_precision_param", "type", "f32");
    else if (computed)
      add("training.mixed_precision_param", "type", "bf16");
    else
      out_.assume("type", "bf16", "torchtitan's default of training.mixed_precision_param");
    if (const auto norm = parts_.number("training.max_norm"))
      add("training.max_norm", "clip", *norm);
    for (const char* path : {"training.seed", "debug.seed"})
      if (const auto seed = parts_.whole(path, 0)) add(path, "seed", *seed);
    if (const auto rate = parts_.number("optimizer.lr"))
      add("optimizer.lr", "learning_rate", *rate);
    if (const auto decay = parts_.number("optimizer.weight_decay"))
      add("optimizer.weight_decay", "weight_decay", *decay);
    else
      out_.assume("weight_decay", 0.1, "torchtitan's default of optimizer.weight_decay");
    const auto name = parts_.text("optimizer.name");
    if (!name || *name == "AdamW") {
      if (name) add("optimizer.name", "optimizer", "adamw");
    } else if (*name == "Adam") {
      add("optimizer.name", "optimizer", "adam");
    } else {
      out_.missing.push_back(
          {parts_.said("optimizer.name"), "frugal has no such optimizer; adamw stands for it"});
    }
  }
  void read_recomputation() {
    const char* const path = "activation_checkpoint.mode";
    const auto mode = parts_.text(path);
    if (mode && (*mode == "full" || *mode == "none")) {
      add(path, "recompute", *mode);
    } else {
      out_.missing.push_back(
          {mode ? parts_.said(path) : "activation_checkpoint.mode = \"selective\", by default",
           "a policy says which operations or layers are computed again; frugal recomputes "
           "nothing here: more memory, less time"});
      return;
    }
    const char* const option = "activation_checkpoint.selective_ac_option";
    if (parts_.has(option)) out_.same.push_back({parts_.said(option), "the mode is another"});
    parts_.take(option);
  }

  const ImportOptions& options_;
  NestedParts parts_;
  const std::string file_;
  Imported out_;
  int64_t replicas_ = 1;
};

}  // namespace

Imported import_torchtitan(const std::string& text, const std::string& file,
                           const ImportOptions& options) {
  return Torchtitan(text, file, options).read();
}

}  // namespace frugal::harness
