#include "harness/import/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/import/nested_parts.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

const std::vector<KnownParts>& deepspeed_without_effect() {
  static const std::vector<KnownParts> all = {
      {{"steps_per_print", "wall_clock_breakdown", "dump_state", "tensorboard.*", "wandb.*",
        "csv_monitor.*", "comet.*", "comms_logger.*", "memory_breakdown", "flops_profiler.*"},
       "what is reported of a step"},
      {{"scheduler.*", "optimizer.params.*", "fp16.*", "bf16.*", "loss_scale",
        "initial_scale_power"},
       "a number of the optimizer; a step computes the same with any"},
      {{"checkpoint.*", "data_efficiency.*", "elasticity.*", "autotuning.*", "seed",
        "dataloader_drop_last"},
       "what happens between steps, or which data is read"},
      {{"zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "prescale_gradients",
        "gradient_predivide_factor", "disable_allgather", "communication_data_type"},
       "the same operations of the same sizes"}};
  return all;
}

const std::vector<KnownParts>& deepspeed_missing() {
  static const std::vector<KnownParts> all = {
      {{"zero_optimization.offload_param.*", "zero_optimization.cpu_offload_params"},
       "weights in host memory or on disks"},
      {{"zero_optimization.*"}, "how ZeRO divides and gathers: the sizes of its buckets, and when"},
      {{"activation_checkpointing.*"}, "where and how inputs of recomputed layers are kept"},
      {{"fp16_master_weights_and_grads", "data_types.*"}, "gradients in another type"},
      {{"sparse_attention.*", "sparse_gradients"}, "attention to some positions only"},
      {{"pipeline.*"}, "DeepSpeed's pipeline; --pipeline-parallel is frugal's"},
      {{"amp.*"}, "mixed precision by another library"},
      {{"compression_training.*", "quantize_training.*", "curriculum_learning.*",
        "progressive_layer_drop.*", "eigenvalue.*"},
       "another training"}};
  return all;
}

class DeepSpeed {
 public:
  DeepSpeed(const std::string& text, const std::string& file, const ImportOptions& options)
      : options_(options), parts_(parse_json(text, file), file), file_(file) {}

  Imported read() {
    out_.format = "deepspeed";
    out_.fix(options_.given);
    if (!options_.given.contains("model"))
      throw InputError(
          fmt::format("{}: a DeepSpeed configuration has no model; give --model", file_));
    read_batch();
    read_type();
    read_optimizer();
    read_zero();
    parts_.rest(deepspeed_without_effect(), deepspeed_missing(), out_);
    return std::move(out_);
  }

 private:
  void add(std::string_view path, const std::string& key, const nlohmann::json& value,
           const std::string& note = "") {
    out_.add(parts_.said(path), key, value, note);
  }
  /// Batch = microbatch x microbatches x replicas: what is not said follows.
  void read_batch() {
    const char *whole = "train_batch_size", *micro = "train_micro_batch_size_per_gpu",
               *steps = "gradient_accumulation_steps";
    const auto batch = parts_.whole(whole), size = parts_.whole(micro),
               accumulated = parts_.whole(steps);
    const int64_t others = others_of_a_replica();
    std::optional<int64_t> replicas;
    if (options_.ranks && *options_.ranks % others == 0) replicas = *options_.ranks / others;
    if (options_.ranks && !replicas)
      throw InputError(fmt::format("--world-size {}: replicas of {} ranks do not make it",
                                   *options_.ranks, others));
    if (!replicas && batch && size && accumulated)
      replicas = exact(*batch, bounded_product({*size, *accumulated}));
    const int64_t d = replicas.value_or(1);
    if (options_.ranks)
      out_.add(fmt::format("--world-size {}", *options_.ranks), "data_parallel_size", d);
    else if (replicas)
      add(whole, "data_parallel_size", d, "what its three parts make of it");
    else
      out_.assume("data_parallel_size", 1,
                  "how many ranks there are is not said; --world-size N says it");
    const int64_t b = size    ? *size
                      : batch ? exact(*batch, bounded_product({d, accumulated.value_or(1)}))
                              : 1;
    const int64_t m = accumulated ? *accumulated
                      : batch     ? exact(*batch, bounded_product({d, b}))
                                  : 1;
    if (batch)
      (void)(exact(*batch, bounded_product({d, b, m})) == 1 || (refuse(*batch, b, m, d), true));
    give(size ? micro : batch ? whole : "", "microbatch_size", b);
    give(accumulated ? steps : batch ? whole : "", "microbatches", m);
  }
  void give(std::string_view path, const std::string& key, int64_t value) {
    if (path.empty())
      out_.assume(key, value, "not said, or left to another program");
    else
      add(path, key, value);
  }
  [[noreturn]] void refuse(int64_t batch, int64_t b, int64_t m, int64_t d) const {
    parts_.fail(
        "train_batch_size",
        fmt::format(
            "is {}, and {} sequences x {} microbatches x {} replicas are not; change one, or "
            "--world-size",
            batch, b, m, d));
  }
  int64_t exact(int64_t batch, int64_t divisor) const {
    if (batch % divisor != 0)
      parts_.fail("train_batch_size",
                  fmt::format("is {}, which is no multiple of {}", batch, divisor));
    return batch / divisor;
  }
  int64_t others_of_a_replica() const {
    int64_t product = 1;
    for (const char* key :
         {"tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"})
      product = bounded_product({product, options_.given.value(key, int64_t{1})});
    return product;
  }
  void read_type() {
    bool wide = true;
    for (const auto& [path, note] :
         {std::pair{"bf16.enabled", ""},
          {"fp16.enabled", "as many bytes and as fast; frugal has no fp16 and scales no loss"}}) {
      if (parts_.is_auto(path))
        parts_.fail(path,
                    "is \"auto\", which the program around DeepSpeed decides; write true or false");
      if (parts_.on(path)) {
        add(path, "type", "bf16", note);
        wide = false;
      } else if (parts_.has(path)) {
        out_.same.push_back({parts_.said(path), "it is off"});
        parts_.take(path);
      }
    }
    if (wide) out_.assume("type", "f32", "neither bf16 nor fp16 is enabled");
  }
  void read_optimizer() {
    if (const auto clip = parts_.number("gradient_clipping"))
      add("gradient_clipping", "clip", *clip);
    else
      out_.assume("clip", 0.0, "DeepSpeed's default of gradient_clipping");
    if (const auto rate = parts_.number("optimizer.params.lr"))
      add("optimizer.params.lr", "learning_rate", *rate);
    if (const auto decay = parts_.number("optimizer.params.weight_decay"))
      add("optimizer.params.weight_decay", "weight_decay", *decay);
    const char* const type = "optimizer.type";
    auto name = parts_.text(type);
    if (!name) return;
    std::transform(name->begin(), name->end(), name->begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (*name == "adam" || *name == "adamw")
      add(type, "optimizer", "adamw",
          *name == "adam" ? "DeepSpeed's Adam decouples weight decay" : "");
    else if (*name == "sgd")
      add(type, "optimizer", "sgd");
    else
      out_.missing.push_back(
          {parts_.said(type), "frugal has no such optimizer; adamw stands for it"});
  }
  void read_zero() {
    const char* const stage_path = "zero_optimization.stage";
    if (const auto stage = parts_.whole(stage_path, 0)) {
      if (*stage > 3) parts_.fail(stage_path, fmt::format("is {}; it must be from 0 to 3", *stage));
      add(stage_path, "shard", name_of(static_cast<engine::Shard>(*stage)));
    }
    for (const char* path :
         {"zero_optimization.offload_optimizer.device", "zero_optimization.cpu_offload"}) {
      const auto device = parts_.text(path);
      if (device && (*device == "cpu" || *device == "true"))
        add(path, "offload_optimizer", true,
            "DeepSpeed steps on the processor; frugal brings the state to the device");
      else if (device && *device != "none" && *device != "false")
        out_.missing.push_back({parts_.said(path), "optimizer state on disks"});
      else if (device)
        out_.same.push_back({parts_.said(path), "it is off"});
    }
  }

  const ImportOptions& options_;
  NestedParts parts_;
  const std::string file_;
  Imported out_;
};

}  // namespace

Imported import_deepspeed(const std::string& text, const std::string& file,
                          const ImportOptions& options) {
  return DeepSpeed(text, file, options).read();
}

}  // namespace frugal::harness
