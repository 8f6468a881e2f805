#include "harness/import/deepspeed.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ImportOptions beside(json given = json::object(), std::optional<int64_t> ranks = {},
                     std::optional<int64_t> global_batch = {}) {
  given["model"] = "22B";
  return {.variables = {}, .ranks = ranks, .global_batch = global_batch, .given = given};
}
Imported read_zero_json(const json& config, const ImportOptions& options = beside()) {
  return import_deepspeed(config.dump(), "ds.json", options);
}
std::string refusal(const json& config, const ImportOptions& options = beside()) {
  return message_of<InputError>([&] { (void)read_zero_json(config, options); });
}
bool says(const std::vector<Imported::Part>& parts, const std::string& said) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Imported::Part& part) { return part.said.find(said) == 0; });
}

TEST(DeepSpeedKeys, StandInOneTableOnce) {
  std::set<std::string> names;
  std::vector<KnownKeys> all = deepspeed_without_effect();
  for (const KnownKeys& line : deepspeed_missing()) all.push_back(line);
  for (const KnownKeys& line : all)
    for (const std::string_view key : line.keys)
      EXPECT_TRUE(names.insert(fmt::format("{}.{}", line.section, key)).second)
          << line.section << '.' << key;
  for (const KnownKeys& line : deepspeed_without_effect())
    EXPECT_EQ(std::count(line.keys.begin(), line.keys.end(), "*"), 0) << line.section;
}

/// Fields of DeepSpeedZeroConfig, of its offload configurations, and of those of types and of
/// activation checkpointing, at edaa72212 (0.19.6).
constexpr const char* every_field = R"({
  "zero_optimization": {
    "stage": 3, "contiguous_gradients": true, "reduce_scatter": true, "reduce_bucket_size": 5,
    "use_multi_rank_bucket_allreduce": true, "allgather_partitions": true,
    "allgather_bucket_size": 5, "overlap_comm": true, "load_from_fp32_weights": true,
    "elastic_checkpoint": false, "sub_group_size": 5, "cpu_offload_param": false,
    "cpu_offload_use_pin_memory": false, "cpu_offload": false, "stage3_prefetch_bucket_size": 5,
    "stage3_param_persistence_threshold": 5, "stage3_model_persistence_threshold": 5,
    "stage3_max_live_parameters": 5, "stage3_max_reuse_distance": 5,
    "stage3_gather_16bit_weights_on_model_save": true, "stage3_module_granularity_threshold": 0,
    "stage3_use_all_reduce_for_fetch_params": false, "stage3_allgather_sequential": false,
    "stage3_gather_fp16_weights_on_model_save": false, "ignore_unused_parameters": true,
    "legacy_stage1": false, "round_robin_gradients": false, "zero_hpz_partition_size": 1,
    "zero_quantized_weights": false, "zero_quantized_nontrainable_weights": false,
    "zero_quantized_gradients": false, "zeropp_loco_param": {"err_beta": 0.8},
    "mics_shard_size": -1, "mics_hierarchical_params_gather": false,
    "memory_efficient_linear": true, "pipeline_loading_checkpoint": false,
    "override_module_apply": true, "log_trace_cache_warnings": false,
    "enable_sanity_checks": false, "save_muon_momentum_buffer_in_memory": false,
    "offload_param": {
      "device": "none", "nvme_path": null, "buffer_count": 5, "buffer_size": 5, "max_in_cpu": 5,
      "pin_memory": true},
    "offload_optimizer": {
      "device": "none", "nvme_path": null, "buffer_count": 4, "pin_memory": true,
      "pipeline_read": false, "pipeline_write": false, "fast_init": false, "ratio": 1.0,
      "super_offload": false, "cpuadam_cores_perc": 0.8}},
  "bf16": {
    "enabled": true, "immediate_grad_update": false, "check_grad_overflow": true,
    "bf16_master_weights_and_grads": false, "bf16_optimizer_states": false},
  "fp16": {
    "enabled": false, "auto_cast": false, "loss_scale": 0, "initial_scale_power": 16,
    "loss_scale_window": 1000, "hysteresis": 2, "consecutive_hysteresis": false,
    "min_loss_scale": 1, "fp16_master_weights_and_grads": false},
  "activation_checkpointing": {
    "partition_activations": false, "number_checkpoints": null,
    "contiguous_memory_optimization": false, "synchronize_checkpoint_boundary": false,
    "profile": false, "cpu_checkpointing": false},
  "data_types": {"grad_accum_dtype": "fp32"}})";

TEST(DeepSpeedKeys, AreThoseOfItsConfigurationClasses) {
  const Imported in = read_zero_json(json::parse(every_field));
  EXPECT_TRUE(in.unknown.empty()) << in.unknown[0].said;
  EXPECT_EQ(in.missing.size(), 11);  // sizes of buckets, and a section of free names
  for (const Imported::Part& part : in.missing)
    EXPECT_THAT(part.said,
                ::testing::AnyOf(HasSubstr("size"), HasSubstr("threshold"), HasSubstr("max_"),
                                 HasSubstr("overlap_comm"), HasSubstr("loco")));
}

TEST(DeepSpeed, NamesWhatItDoesNotHave) {
  const std::vector<std::pair<const char*, json>> all = {
      {"optimizer.params.amsgrad = true", {{"optimizer", {{"params", {{"amsgrad", true}}}}}}},
      {"optimizer.params.torch_adam = true", {{"optimizer", {{"params", {{"torch_adam", true}}}}}}},
      {"fp16.fp16_master_weights_and_grads = true",
       {{"fp16", {{"enabled", true}, {"fp16_master_weights_and_grads", true}}}}},
      {"bf16.bf16_optimizer_states = true",
       {{"bf16", {{"enabled", true}, {"bf16_optimizer_states", true}}}}},
      {"zero_optimization.reduce_scatter = false",
       {{"zero_optimization", {{"stage", 2}, {"reduce_scatter", false}}}}},
      {"zero_optimization.offload_param.device = \"cpu\"",
       {{"zero_optimization", {{"stage", 3}, {"offload_param", {{"device", "cpu"}}}}}}},
      {"elasticity.enabled = true", {{"elasticity", {{"enabled", true}}}}},
      {"data_efficiency.enabled = true", {{"data_efficiency", {{"enabled", true}}}}},
      {"communication_data_type = \"fp16\"", {{"communication_data_type", "fp16"}}},
      {"sequence_parallel_size = 2", {{"sequence_parallel_size", 2}}}};
  for (const auto& [said, config] : all) {
    const Imported in = read_zero_json(config);
    EXPECT_TRUE(says(in.missing, said)) << said;
    EXPECT_TRUE(in.unknown.empty()) << said;
  }
  for (const char* section : {"optimizer", "scheduler", "fp16", "bf16", "zero_optimization",
                              "checkpoint", "flops_profiler", "activation_checkpointing"})
    EXPECT_TRUE(says(read_zero_json({{section, {{"frobnicate", 1}}}}).unknown,
                     fmt::format("{}.frobnicate = 1", section)))
        << section;
  EXPECT_TRUE(says(read_zero_json({{"optimizer", {{"params", {{"beta", 1}}}}}}).unknown,
                   "optimizer.params.beta"));
  const Imported off = read_zero_json({{"elasticity", {{"enabled", false}, {"min_gpus", 8}}}});
  EXPECT_TRUE(off.missing.empty());
}

TEST(DeepSpeed, ClipsByOneWhereItDoesNotSay) {
  EXPECT_EQ(read_zero_json(json::object()).given.at("clip"), 1.0);
  EXPECT_EQ(read_zero_json({{"gradient_clipping", nullptr}}).given.at("clip"), 1.0);
  EXPECT_EQ(read_zero_json({{"gradient_clipping", 0.0}}).given.at("clip"), 0.0);
  EXPECT_EQ(read_zero_json({{"gradient_clipping", 0.3}}).given.at("clip"), 0.3);
}

TEST(DeepSpeed, ReducesInTheTypeOfTheWeights) {
  const json narrow = {{"bf16", {{"enabled", true}}}};
  EXPECT_EQ(read_zero_json(narrow).given.at("narrow_reduction"), true);
  json wide = narrow;
  wide["communication_data_type"] = "fp32";
  EXPECT_FALSE(read_zero_json(wide).given.contains("narrow_reduction"));
  EXPECT_FALSE(read_zero_json(json::object()).given.contains("narrow_reduction"));
  json pure = {{"bf16",
                {{"enabled", true},
                 {"bf16_master_weights_and_grads", true},
                 {"bf16_optimizer_states", true}}}};
  EXPECT_EQ(read_zero_json(pure).given.at("precision"), "pure");
  EXPECT_THAT(refusal({{"communication_data_type", "int4"}}), HasSubstr("fp16, bf16"));
}

TEST(DeepSpeed, OptimizersHaveTheStateOfTheirParameters) {
  const auto kind = [](const char* type, const json& params = json::object()) {
    return read_zero_json({{"optimizer", {{"type", type}, {"params", params}}}})
        .given.value("optimizer", "none");
  };
  EXPECT_EQ(kind("Adam"), "adamw");
  EXPECT_EQ(kind("Adam", {{"adam_w_mode", false}}), "adam");
  EXPECT_EQ(kind("AdamW", {{"adam_w_mode", false}}), "adamw");
  EXPECT_EQ(kind("SGD"), "sgd");
  EXPECT_EQ(kind("SGD", {{"momentum", 0.9}}), "momentum");
  EXPECT_EQ(kind("Lion"), "none");
}

TEST(DeepSpeed, StagesOfZeroAndGroupsOfRanks) {
  const auto shard = [](int stage) {
    return read_zero_json({{"zero_optimization", {{"stage", stage}}}}).given.at("shard");
  };
  EXPECT_EQ(shard(0), "none");
  EXPECT_EQ(shard(1), "optimizer");
  EXPECT_EQ(shard(2), "gradients");
  EXPECT_EQ(shard(3), "weights");
  const Imported in = read_zero_json(
      {{"zero_optimization", {{"stage", 3}, {"mics_shard_size", 4}}}}, beside({}, 8));
  EXPECT_EQ(in.given.at("shard_size"), 4);
  EXPECT_EQ(in.given.at("data_parallel_size"), 8);
  EXPECT_THAT(refusal({{"zero_optimization", {{"stage", 4}}}}), HasSubstr("from 0 to 3"));
  const json offload = {{"offload_optimizer", {{"device", "cpu"}}}, {"stage", 2}};
  EXPECT_EQ(read_zero_json({{"zero_optimization", offload}}).given.at("offload_optimizer"), true);
}

TEST(DeepSpeed, AsksForWhatItLeavesOpenAllAtOnce) {
  const json all = {{"train_micro_batch_size_per_gpu", "auto"},
                    {"gradient_accumulation_steps", "auto"},
                    {"bf16", {{"enabled", "auto"}}},
                    {"fp16", {{"enabled", "auto"}}}};
  EXPECT_EQ(refusal(all),
            "ds.json: train_micro_batch_size_per_gpu, gradient_accumulation_steps, bf16.enabled, "
            "fp16.enabled are \"auto\", which the program around DeepSpeed decides; give "
            "--micro-batch, --global-batch-size, --type");
  EXPECT_THAT(refusal(all, beside({{"type", "bf16"}})), Not(HasSubstr("enabled")));
  EXPECT_THAT(refusal(all, beside({{"type", "bf16"}, {"microbatch_size", 2}})),
              AllOf(HasSubstr(": gradient_accumulation_steps is"), Not(HasSubstr("--micro"))));
  const Imported in =
      read_zero_json(all, beside({{"type", "bf16"}, {"microbatch_size", 2}}, 8, 64));
  EXPECT_EQ(in.given.at("microbatches"), 64 / 8 / 2);
  EXPECT_EQ(in.given.at("microbatch_size"), 2);
  EXPECT_EQ(in.given.at("type"), "bf16");
  EXPECT_TRUE(in.unknown.empty());
}

/// An open key that follows from the others, or does not matter, is no question.
TEST(DeepSpeed, AsksForNothingThatFollows) {
  const json follows = {{"train_batch_size", 64},
                        {"train_micro_batch_size_per_gpu", 4},
                        {"gradient_accumulation_steps", "auto"}};
  EXPECT_EQ(read_zero_json(follows, beside({}, 8)).given.at("microbatches"), 2);
  for (const auto& [on, open] : {std::pair{"bf16", "fp16"}, {"fp16", "bf16"}}) {
    const Imported in = read_zero_json({{on, {{"enabled", true}}}, {open, {{"enabled", "auto"}}}});
    EXPECT_EQ(in.given.at("type"), "bf16");
    EXPECT_TRUE(says(in.same, fmt::format("{}.enabled = \"auto\"", open)));
  }
  EXPECT_THAT(refusal({{"bf16", {{"enabled", true}}}, {"fp16", {{"enabled", true}}}}),
              HasSubstr("fp16.enabled is true"));
  const Imported in = read_zero_json(
      {{"gradient_clipping", "auto"},
       {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", "auto"}, {"betas", "auto"}}}}},
       {"zero_optimization", {{"stage", 2}, {"reduce_bucket_size", "auto"}}}});
  for (const char* said :
       {"gradient_clipping", "optimizer.params.lr", "zero_optimization.reduce_bucket_size"})
    EXPECT_TRUE(says(in.assumed, said)) << said;
  EXPECT_TRUE(in.unknown.empty());
}

}  // namespace
}  // namespace frugal::harness
