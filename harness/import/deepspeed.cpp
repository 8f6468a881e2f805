#include "harness/import/deepspeed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "harness/settings/field.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

class DeepSpeed {
 public:
  DeepSpeed(const std::string& text, const std::string& file, const ImportOptions& options)
      : options_(options), parts_(parse_json(text, file), file, "auto"), file_(file) {}

  Imported read() {
    out_.format = "deepspeed";
    out_.fix(options_.given);
    if (!options_.given.contains("model"))
      throw InputError(
          fmt::format("{}: a DeepSpeed configuration has no model; give --model", file_));
    const Batch batch = batch_of();
    const std::string type = type_of();
    if (!open_.empty())
      throw InputError(fmt::format(
          "{}: {} {} \"auto\", which the program around DeepSpeed decides; give {}", file_,
          fmt::join(open_, ", "), open_.size() == 1 ? "is" : "are", fmt::join(answers_, ", ")));
    say_batch(batch);
    read_reduction(type);
    read_optimizer();
    read_zero();
    std::vector<std::string> off;
    if (out_.given.value("shard", "none") == "none") off.emplace_back("zero_optimization");
    for (const char* section : {"offload_param", "offload_optimizer"}) {
      const std::string where = fmt::format("zero_optimization.{}", section);
      if (parts_.said(where + ".device").find("none") != std::string::npos ||
          !parts_.has(where + ".device"))
        off.push_back(where);
    }
    parts_.rest(deepspeed_without_effect(), deepspeed_missing(), out_, off);
    return std::move(out_);
  }

 private:
  static constexpr const char* whole = "train_batch_size";
  static constexpr const char* micro = "train_micro_batch_size_per_gpu";
  static constexpr const char* steps = "gradient_accumulation_steps";

  void add(std::string_view path, const std::string& key, const nlohmann::json& value,
           const std::string& note = "") {
    out_.add(parts_.said(path), key, value, note);
  }
  void same(std::string_view path, const std::string& why) {
    if (parts_.has(path)) out_.same.push_back({parts_.said(path), why});
    parts_.take(path);
  }
  /// A question that the file leaves open, and the flag that answers it.
  void ask(const std::string& path, const std::string& flag) {
    open_.push_back(path);
    if (std::find(answers_.begin(), answers_.end(), flag) == answers_.end())
      answers_.push_back(flag);
  }

  /// Batch = microbatch x microbatches x replicas.
  struct Batch {
    std::optional<int64_t> whole, micro, steps, replicas;
  };
  Batch batch_of() {
    Batch batch{parts_.whole(whole), parts_.whole(micro), parts_.whole(steps), {}};
    if (options_.global_batch) batch.whole = options_.global_batch;
    if (const auto given = options_.given.find("microbatch_size"); given != options_.given.end())
      batch.micro = given->get<int64_t>();
    // A whole batch that stands beside the file says how many microbatches there are.
    if (options_.global_batch && batch.micro) batch.steps.reset();
    const int open = int{parts_.is_auto(whole) && !batch.whole} +
                     int{parts_.is_auto(micro) && !batch.micro} +
                     int{parts_.is_auto(steps) && !batch.steps};
    const int known = int{batch.whole.has_value()} + int{batch.micro.has_value()} +
                      int{batch.steps.has_value() || !parts_.has(steps)};
    if (open > 0 && known < 2) {
      if (parts_.is_auto(whole) && !batch.whole) ask(whole, "--global-batch-size");
      if (parts_.is_auto(micro) && !batch.micro) ask(micro, "--micro-batch");
      if (parts_.is_auto(steps) && !batch.steps) ask(steps, "--global-batch-size");
    }
    return batch;
  }
  /// Adds all parts of the batch; those that are not said follow from the others.
  void say_batch(Batch batch) {
    const int64_t others = others_of_a_replica();
    if (options_.ranks && *options_.ranks % others != 0)
      throw InputError(fmt::format("--world-size {}: replicas of {} ranks do not make it",
                                   *options_.ranks, others));
    if (options_.ranks) batch.replicas = *options_.ranks / others;
    if (!batch.replicas && batch.whole && batch.micro && batch.steps)
      batch.replicas = exact(*batch.whole, bounded_product({*batch.micro, *batch.steps}));
    const int64_t d = batch.replicas.value_or(1);
    const std::string by_whole = options_.global_batch
                                     ? fmt::format("--global-batch-size {}", *options_.global_batch)
                                     : parts_.said(whole);
    if (options_.ranks)
      out_.add(fmt::format("--world-size {}", *options_.ranks), "data_parallel_size", d);
    else if (batch.replicas)
      out_.add(by_whole, "data_parallel_size", d, "what its three parts make of it");
    else
      out_.assume("data_parallel_size", 1,
                  "how many ranks there are is not said; --world-size N says it");
    const int64_t b = batch.micro ? *batch.micro
                      : batch.whole
                          ? exact(*batch.whole, bounded_product({d, batch.steps.value_or(1)}))
                          : 1;
    const int64_t m = batch.steps   ? *batch.steps
                      : batch.whole ? exact(*batch.whole, bounded_product({d, b}))
                                    : 1;
    if (batch.whole && *batch.whole != bounded_product({d, b, m}))
      throw InputError(fmt::format(
          "{}: {} is {}, and {} sequences x {} microbatches x {} replicas are not; change one, or "
          "--world-size",
          file_, whole, *batch.whole, b, m, d));
    const std::string from_whole = batch.whole ? by_whole : "";
    give(batch.micro ? parts_.said(micro) : from_whole, "microbatch_size", b);
    give(batch.steps ? parts_.said(steps) : from_whole, "microbatches", m);
    if (options_.global_batch)
      for (const char* path : {whole, steps}) same(path, "--global-batch-size takes precedence");
  }
  void give(const std::string& said, const std::string& key, int64_t value) {
    if (said.empty())
      out_.assume(key, value, "not said");
    else
      out_.add(said, key, value);
  }
  int64_t exact(int64_t batch, int64_t divisor) const {
    if (batch % divisor != 0)
      parts_.fail(whole, fmt::format("is {}, which is no multiple of {}", batch, divisor));
    return batch / divisor;
  }
  int64_t others_of_a_replica() const {
    int64_t product = 1;
    for (const char* key :
         {"tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"})
      product = bounded_product({product, options_.given.value(key, int64_t{1})});
    return product;
  }

  std::string type_of() {
    const std::string narrow = parts_.first({"bf16.enabled", "bfloat16.enabled"});
    const std::string half = "fp16.enabled";
    const auto given = options_.given.find("type");
    if (given != options_.given.end()) {
      for (const std::string& path : {narrow, half}) same(path, "--type takes precedence");
      return given->get<std::string>();
    }
    const bool is_narrow = parts_.on(narrow), is_half = parts_.on(half);
    if (is_narrow && is_half)
      parts_.fail(half, fmt::format("is true, and so is {}; set one of them to false", narrow));
    if (is_narrow || is_half) {
      add(is_narrow ? narrow : half, "type", "bf16",
          is_narrow ? "" : "as many bytes and as fast; frugal has no fp16 and scales no loss");
      same(is_narrow ? half : narrow, fmt::format("{} is on", is_narrow ? narrow : half));
      return "bf16";
    }
    for (const std::string& path : {narrow, half})
      if (parts_.is_auto(path))
        ask(path, "--type");
      else
        same(path, "it is off");
    out_.assume("type", "f32", "neither bf16 nor fp16 is enabled");
    return "f32";
  }
  /// Types of gradients, and of what replicas exchange.
  void read_reduction(const std::string& type) {
    const char* const path = "communication_data_type";
    const auto said = parts_.one_of(path, {"fp16", "bf16", "bfp16", "fp32"});
    if (said && *said == "fp32")
      out_.same.push_back({parts_.said(path), "frugal sums gradients in float32"});
    else if (said && type == "bf16")
      add(path, "narrow_reduction", true);
    else if (said)
      out_.missing.push_back({parts_.said(path), "gradients that are summed in 16 bits"});
    else if (type == "bf16")
      out_.assume("narrow_reduction", true,
                  "DeepSpeed's default of communication_data_type is the type of the weights");
    const char *const gradients = "bf16.bf16_master_weights_and_grads",
                      *const state = "bf16.bf16_optimizer_states";
    if (parts_.is_on(gradients) && parts_.is_on(state) && type == "bf16")
      for (const char* both : {gradients, state}) {
        add(both, "precision", "pure");
        parts_.take(both);
      }
  }
  void read_optimizer() {
    if (const auto clip = parts_.number("gradient_clipping"))
      add("gradient_clipping", "clip", *clip);
    else
      out_.assume("clip", 1.0, "DeepSpeed's default of gradient_clipping since 0.19.3; 0 before");
    if (const auto rate = parts_.number("optimizer.params.lr"))
      add("optimizer.params.lr", "learning_rate", *rate);
    if (const auto decay = parts_.number("optimizer.params.weight_decay"))
      add("optimizer.params.weight_decay", "weight_decay", *decay);
    const char *const type = "optimizer.type", *const momentum = "optimizer.params.momentum",
                      *const decoupled = "optimizer.params.adam_w_mode";
    std::string name = parts_.text(type).value_or("");
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const double moving = parts_.number(momentum).value_or(0);
    const bool is_coupled = parts_.has(decoupled) && !parts_.on(decoupled);
    if (!parts_.has(type)) {
      out_.assume("optimizer", "adamw", "the file names none");
    } else if (name == "adam" || name == "adamw") {
      const bool in_gradient = name == "adam" && is_coupled;
      add(type, "optimizer", in_gradient ? "adam" : "adamw",
          name == "adam" && !in_gradient ? "DeepSpeed's Adam decouples weight decay" : "");
    } else if (name == "sgd") {
      add(type, "optimizer", moving > 0 ? "momentum" : "sgd");
    } else {
      out_.missing.push_back(
          {parts_.said(type), "frugal has no such optimizer; adamw stands for it"});
    }
    if (parts_.has(momentum) && name == "sgd" && moving > 0)
      add(momentum, "momentum", moving);
    else
      same(momentum, "a number of the optimizer, which has no such state");
    if (parts_.has(decoupled))
      out_.same.push_back({parts_.said(decoupled), "how weight decay is added"});
  }
  void read_zero() {
    const char* const stage_path = "zero_optimization.stage";
    if (const auto stage = parts_.whole(stage_path, 0)) {
      if (*stage > 3) parts_.fail(stage_path, fmt::format("is {}; it must be from 0 to 3", *stage));
      const auto shard = static_cast<engine::Shard>(*stage);
      add(stage_path, "shard", name_of(shard),
          *stage == 0 ? ""
                      : "DeepSpeed keeps gradients in the type of the weights, if "
                        "data_types.grad_accum_dtype says no other; frugal in float32");
    }
    const char* const group = "zero_optimization.mics_shard_size";
    const auto size = parts_.whole(group, -1);
    if (size && *size > 0)
      add(group, "shard_size", *size);
    else if (size)
      out_.same.push_back({parts_.said(group), "it is off"});
    const char *const old = "zero_optimization.cpu_offload",
                      *const path = "zero_optimization.offload_optimizer.device";
    const char* const how =
        "DeepSpeed steps on the processor; frugal brings the state to the device";
    if (parts_.on(old))
      add(old, "offload_optimizer", true, how);
    else
      same(old, "it is off");
    const auto device = parts_.one_of(path, {"none", "cpu", "nvme"});
    if (device && *device == "cpu")
      add(path, "offload_optimizer", true, how);
    else if (device && *device == "nvme")
      out_.missing.push_back({parts_.said(path), "optimizer state on disks"});
    else if (device)
      out_.same.push_back({parts_.said(path), "it is off"});
  }

  const ImportOptions& options_;
  NestedParts parts_;
  const std::string file_;
  Imported out_;
  std::vector<std::string> open_, answers_;
};

}  // namespace

Imported import_deepspeed(const std::string& text, const std::string& file,
                          const ImportOptions& options) {
  return DeepSpeed(text, file, options).read();
}

}  // namespace frugal::harness
