#include "harness/import/torchtitan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "harness/settings/settings.h"
#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Every key of torchtitan's JobConfig and of the arguments before it, in all versions that read
/// TOML, until 9810191bb (23 February 2026).
constexpr const char* every_key =
    "activation_checkpoint.debug activation_checkpoint.determinism_check "
    "activation_checkpoint.early_stop activation_checkpoint.memory_budget "
    "activation_checkpoint.mode "
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns "
    "activation_checkpoint.preserve_rng_state activation_checkpoint.selective_ac_option "
    "activation_checkpoint.visualize_memory_budget_pareto checkpoint.async_mode "
    "checkpoint.create_seed_checkpoint checkpoint.enable checkpoint.enable_checkpoint "
    "checkpoint.enable_first_step_checkpoint checkpoint.enable_ft_dataloader_checkpoints "
    "checkpoint.exclude_from_loading checkpoint.export_dtype checkpoint.folder "
    "checkpoint.initial_load_in_hf checkpoint.initial_load_in_hf_quantized "
    "checkpoint.initial_load_model_only checkpoint.initial_load_model_weights_only "
    "checkpoint.initial_load_path checkpoint.interval checkpoint.interval_type "
    "checkpoint.keep_latest_k checkpoint.last_save_in_hf "
    "checkpoint.last_save_in_safetensors_format checkpoint.last_save_model_only "
    "checkpoint.last_save_model_weights_only checkpoint.load_only checkpoint.load_step "
    "checkpoint.model_weights_only comm.init_timeout_seconds comm.mode "
    "comm.save_traces_file_prefix comm.save_traces_folder comm.trace_buf_size "
    "comm.train_timeout_seconds compile.backend compile.components compile.enable "
    "debug.deterministic debug.deterministic_warn_only debug.moe_force_load_balance debug.seed "
    "estimate.memory estimate.mode experimental.context_parallel_degree "
    "experimental.context_parallel_rotate_method experimental.custom_args_module "
    "experimental.custom_import experimental.custom_model_path "
    "experimental.enable_async_tensor_parallel experimental.enable_compiled_autograd "
    "experimental.pipeline_parallel_degree experimental.pipeline_parallel_microbatches "
    "experimental.pipeline_parallel_schedule experimental.pipeline_parallel_schedule_csv "
    "experimental.pipeline_parallel_split_mode experimental.pipeline_parallel_split_points "
    "experimental.torch_spmd fault_tolerance.enable fault_tolerance.fragment_sync_delay "
    "fault_tolerance.fragment_update_alpha fault_tolerance.group_size "
    "fault_tolerance.min_replica_size fault_tolerance.module_fqns_per_model_fragment "
    "fault_tolerance.num_fragments fault_tolerance.process_group "
    "fault_tolerance.process_group_timeout_ms fault_tolerance.replica_id "
    "fault_tolerance.semi_sync_method fault_tolerance.should_quantize fault_tolerance.sync_steps "
    "float8.emulate float8.enable_float8_linear float8.enable_fsdp_float8_all_gather "
    "float8.filter_fqns float8.force_recompute_fp8_weight_in_bwd float8.moe_fqns_prototype "
    "float8.precompute_float8_dynamic_scale_for_fsdp float8.recipe_name "
    "float8.scaling_type_grad_output float8.scaling_type_input float8.scaling_type_weight "
    "job.config_file job.custom_config_module job.description job.dump_folder job.print_args "
    "job.print_config job.save_config_file job.save_config_folder job.use_for_integration_test "
    "lr_scheduler.decay_ratio lr_scheduler.decay_type lr_scheduler.lr_min "
    "lr_scheduler.min_lr_factor lr_scheduler.total_steps lr_scheduler.warmup_steps "
    "memory_estimation.disable_fake_mode memory_estimation.enable memory_estimation.enabled "
    "metrics.disable_color_printing metrics.disable_logging_from_checkpoint "
    "metrics.enable_color_printing metrics.enable_tensorboard metrics.enable_wandb "
    "metrics.log_freq metrics.rank_0_only metrics.save_for_all_ranks metrics.save_tb_folder "
    "model.attn_mask_type model.converters model.flavor model.hf_assets_path model.name "
    "model.norm_type model.print_after_conversion model.tokenizer_path model.use_flex_attn "
    "mx.filter_fqns mx.moe_fqns_prototype mx.mxfp8_dim1_cast_kernel_choice mx.recipe_name "
    "mx.use_fp8_dim1_cast_triton_kernel optimizer.beta1 optimizer.beta2 "
    "optimizer.early_step_in_backward optimizer.eps optimizer.fused optimizer.implementation "
    "optimizer.lr optimizer.name optimizer.weight_decay parallelism.context_parallel_degree "
    "parallelism.context_parallel_load_balancer parallelism.context_parallel_rotate_method "
    "parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree "
    "parallelism.disable_loss_parallel parallelism.enable_async_tensor_parallel "
    "parallelism.enable_compiled_autograd parallelism.expert_parallel_comm_backend "
    "parallelism.expert_parallel_degree parallelism.expert_tensor_parallel_degree "
    "parallelism.fsdp_reshard_after_forward parallelism.module_fqns_per_model_part "
    "parallelism.pipeline_parallel_degree parallelism.pipeline_parallel_expert_parallel_overlap "
    "parallelism.pipeline_parallel_first_stage_less_layers "
    "parallelism.pipeline_parallel_last_stage_less_layers "
    "parallelism.pipeline_parallel_layers_per_stage parallelism.pipeline_parallel_microbatch_size "
    "parallelism.pipeline_parallel_microbatches parallelism.pipeline_parallel_schedule "
    "parallelism.pipeline_parallel_schedule_csv parallelism.pipeline_parallel_split_points "
    "parallelism.tensor_parallel_degree profiling.enable_memory_snapshot "
    "profiling.enable_profiling profiling.profile_every_x_iter profiling.profile_freq "
    "profiling.profiler_active profiling.profiler_warmup profiling.run_profiler "
    "profiling.save_memory_snapshot_folder profiling.save_traces_folder "
    "quantize.dense.float8.emulate quantize.dense.float8.enable_fsdp_float8_all_gather "
    "quantize.dense.float8.filter_fqns "
    "quantize.dense.float8.precompute_float8_dynamic_scale_for_fsdp "
    "quantize.dense.float8.recipe_name quantize.dense.mx.filter_fqns "
    "quantize.dense.mx.mxfp8_dim1_cast_kernel_choice quantize.dense.mx.recipe_name "
    "quantize.grouped_mm.float8.fqns quantize.grouped_mm.mx.fqns "
    "quantize.grouped_mm.mx.recipe_name quantize.linear.float8.emulate "
    "quantize.linear.float8.enable_fsdp_float8_all_gather quantize.linear.float8.filter_fqns "
    "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp "
    "quantize.linear.float8.recipe_name quantize.linear.mx.filter_fqns "
    "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice quantize.linear.mx.recipe_name "
    "quantize.moe.float8.fqns quantize.moe.mx.fqns training.batch_size training.compile "
    "training.data_parallel_degree training.data_parallel_replicate_degree "
    "training.data_parallel_shard_degree training.data_parallel_type "
    "training.dataloader.num_workers training.dataloader.persistent_workers "
    "training.dataloader.pin_memory training.dataloader.prefetch_factor training.dataset "
    "training.dataset_path training.debug_moe_force_load_balance training.deterministic "
    "training.disable_loss_parallel training.dtype training.enable_cpu_offload "
    "training.enable_float8_linear training.enable_fp8_linear "
    "training.enable_fsdp_float8_all_gather training.enable_fsdp_fp8_all_gather "
    "training.enable_loss_parallel training.float8_scaling_type_grad_output "
    "training.float8_scaling_type_input training.float8_scaling_type_weight training.fp8_linear "
    "training.fsdp_reshard_after_forward training.gc_debug training.gc_freq "
    "training.global_batch_size training.local_batch_size training.max_norm "
    "training.mixed_precision_param training.mixed_precision_reduce "
    "training.pipeline_parallel_degree training.precompute_float8_dynamic_scale_for_fsdp "
    "training.seed training.seq_len training.steps training.tensor_parallel_degree "
    "training.warmup_steps validation.dataloader.num_workers "
    "validation.dataloader.persistent_workers validation.dataloader.pin_memory "
    "validation.dataloader.prefetch_factor validation.dataset validation.dataset_path "
    "validation.enable validation.enabled validation.freq validation.local_batch_size "
    "validation.seq_len validation.steps ";

/// Keys that only versions before September 2024 have, and that are refused by name.
const std::set<std::string> refused = {"training.data_parallel_degree",
                                       "training.data_parallel_type"};

std::string toml(const std::string& more = "") {
  return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + more;
}
Imported read(const std::string& text, const ImportOptions& options = {}) {
  return import_torchtitan(text, "job.toml", options);
}
ImportOptions titan_of_ranks(int64_t ranks) {
  ImportOptions options;
  options.ranks = ranks;
  return options;
}
bool is_among(const std::vector<Imported::Part>& parts, const std::string& said) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Imported::Part& part) { return part.said.find(said) == 0; });
}

TEST(TorchtitanKeys, StandInOneTableOnce) {
  std::set<std::string> names;
  std::vector<KnownKeys> all = torchtitan_without_effect();
  for (const KnownKeys& line : torchtitan_missing()) all.push_back(line);
  for (const char* section : {"parallelism", "experimental"}) {
    all.push_back(torchtitan_stages(section));
    all.push_back(torchtitan_contexts(section));
  }
  for (const KnownKeys& line : all)
    for (const std::string_view key : line.keys)
      EXPECT_TRUE(names.insert(fmt::format("{}.{}", line.section, key)).second)
          << line.section << '.' << key;
}

TEST(TorchtitanKeys, AreAllKnown) {
  std::istringstream keys(every_key);
  for (std::string key; keys >> key;) {
    if (refused.contains(key) || key.starts_with("model.name") || key.starts_with("model.flavor"))
      continue;
    const size_t dot = key.find('.');
    std::string text = toml();
    if (key.starts_with("model."))
      text += fmt::format("{} = []\n", key.substr(dot + 1));
    else
      text += fmt::format("[{}]\n{} = []\n", key.substr(0, dot), key.substr(dot + 1));
    try {
      const Imported in = read(text);
      EXPECT_TRUE(in.unknown.empty()) << key;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(key + " is []; it must be "));
    }
  }
  for (const std::string& key : refused)
    EXPECT_THAT(message_of<InputError>([&] {
                  (void)read(toml("[training]\n" + key.substr(key.find('.') + 1) + " = 8\n"));
                }),
                HasSubstr("data_parallel_shard_degree"));
}

/// Keys that change memory or time are neither taken for harmless nor swallowed, in any section.
TEST(Torchtitan, NamesWhatItDoesNotHave) {
  for (const char* part :
       {"optimizer.implementation = \"foreach\"", "optimizer.state_dtype = \"bfloat16\"",
        "optimizer.fused = false", "training.enable_cpu_offload = true",
        "training.dataloader.pin_memory = true", "checkpoint.async_mode = \"async\"",
        "comm.mode = \"fake_backend\"", "job.custom_config_module = \"mine\"",
        "parallelism.expert_parallel_degree = 2", "activation_checkpoint.early_stop = true",
        "parallelism.disable_loss_parallel = true"}) {
    const std::string text(part), key = text.substr(0, text.find(' '));
    const size_t dot = key.find('.');
    const Imported in =
        read(toml(fmt::format("[{}]\n{}\n", text.substr(0, dot), text.substr(dot + 1))));
    EXPECT_TRUE(is_among(in.missing, text)) << text;
    EXPECT_FALSE(is_among(in.same, text)) << text;
  }
  for (const char* section : {"optimizer", "job", "metrics", "checkpoint", "lr_scheduler", "comm",
                              "profiling", "validation", "activation_checkpoint"})
    EXPECT_TRUE(is_among(read(toml(fmt::format("[{}]\nfrobnicate = 1\n", section))).unknown,
                         fmt::format("{}.frobnicate = 1", section)))
        << section;
  EXPECT_THAT(read(toml("[training]\nseq_lem = 1\n")).unknown.at(0).what,
              HasSubstr("training.seq_len"));
  EXPECT_TRUE(
      is_among(read(toml("[training]\nseq_len2 = {}\n")).unknown, "training.seq_len2 = {}"));
  EXPECT_THAT(message_of<InputError>([] { (void)read(toml("[training]\nseq_len = {}\n")); }),
              HasSubstr("training.seq_len is {}"));
}

TEST(Torchtitan, WhatIsAsUsualChangesNothing) {
  const Imported in =
      read(toml("[optimizer]\nimplementation = \"fused\"\nstate_dtype = \"float32\"\n"
                "early_step_in_backward = false\n[checkpoint]\nasync_mode = \"disabled\"\n"
                "[validation]\nenable = false\nsteps = 3\n[float8]\nrecipe_name = \"rowwise\"\n"
                "[parallelism]\nexpert_parallel_degree = 1\ncontext_parallel_rotate_method = "
                "\"alltoall\"\npipeline_parallel_split_points = [\"layers.3\"]\n"));
  EXPECT_TRUE(in.missing.empty()) << in.missing[0].said;
  EXPECT_EQ(in.same.size(), 10);
}

TEST(Torchtitan, DividesNothingAmongCopies) {
  const Imported copies = read(
      toml("[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n"));
  EXPECT_EQ(copies.given.at("data_parallel_size"), 8);
  EXPECT_FALSE(copies.given.contains("shard"));
  EXPECT_THAT(message_of<InputError>([] {
                (void)read(toml("[parallelism]\ndata_parallel_shard_degree = 4\n"),
                           titan_of_ranks(48));
              }),
              HasSubstr("--world-size"));
}

TEST(Torchtitan, StagesCountTheEmbeddingAndTheOutputLayer) {
  const auto layers = [](const std::string& flavor, const std::string& more) {
    const Imported in =
        read("[model]\nname = \"llama3\"\nflavor = \"" + flavor + "\"\n[parallelism]\n" + more);
    return in.given.value("stage_layers", "equal");
  };
  EXPECT_EQ(layers("70B", "pipeline_parallel_degree = 8\n"), "10+11+5*10+9");  // of 82: 11, 11, 10
  EXPECT_EQ(layers("405B", "pipeline_parallel_degree = 16\n"), "7+14*8+7");
  EXPECT_EQ(layers("8B", "pipeline_parallel_degree = 2\n"), "equal");
  EXPECT_EQ(
      layers("8B", "pipeline_parallel_degree = 2\npipeline_parallel_first_stage_less_layers = 0\n"),
      "17+15");  // of 33: 17 and 16
  EXPECT_EQ(layers("8B",
                   "pipeline_parallel_degree = 4\npipeline_parallel_schedule = "
                   "\"Interleaved1F1B\"\n"),
            "4+5+5*4+3");  // of 34 in 8 parts
  EXPECT_EQ(layers("8B",
                   "pipeline_parallel_degree = 2\npipeline_parallel_schedule = "
                   "\"Interleaved1F1B\"\npipeline_parallel_layers_per_stage = 6\n"),
            "5+3*6+5+4");  // of 34 in 6 parts: 6, 6, 6, 6, 5, 5
}

TEST(Torchtitan, StepsInBackwardWithoutClipping) {
  const Imported in =
      read(toml("[optimizer]\nearly_step_in_backward = true\n[training]\nmax_norm = 1.0\n"));
  EXPECT_EQ(in.given.at("step_in_backward"), true);
  EXPECT_FALSE(in.given.contains("clip"));
  EXPECT_TRUE(is_among(in.same, "training.max_norm"));
  EXPECT_EQ(read(toml()).given.at("clip"), 1.0);
  EXPECT_EQ(read(toml("[training]\nmax_norm = 0.5\n")).given.at("clip"), 0.5);
}

TEST(Torchtitan, WeightsInBf16ArePure) {
  const Imported in = read(toml("[training]\ndtype = \"bfloat16\"\n"));
  EXPECT_EQ(in.given.at("precision"), "pure");
  EXPECT_EQ(in.given.at("type"), "bf16");
  EXPECT_FALSE(read(toml("[training]\ndtype = \"float32\"\n")).given.contains("precision"));
  EXPECT_EQ(read(toml("[training]\nmixed_precision_param = \"float32\"\n")).given.at("type"),
            "f32");
  EXPECT_EQ(read(toml("[training]\nmixed_precision_reduce = \"bfloat16\"\n"))
                .given.at("narrow_reduction"),
            true);
  EXPECT_THAT(message_of<InputError>([] { (void)read(toml("[training]\ndtype = \"fp8\"\n")); }),
              AllOf(HasSubstr("training.dtype"), HasSubstr("bfloat16, float32")));
}

TEST(Torchtitan, RecomputesEveryNthLayer) {
  const auto of = [](const std::string& more) {
    const nlohmann::json given = read(toml(more)).given;
    return fmt::format("{} {}", given.value("recompute", "?"),
                       given.value("recompute_layers", int64_t{0}));
  };
  const std::string section = "[activation_checkpoint]\n";
  EXPECT_EQ(of(""), "full 16");  // every second of 32, by default
  EXPECT_EQ(of(section + "mode = \"selective\"\n"), "full 16");
  EXPECT_EQ(of(section + "selective_ac_option = \"3\"\n"), "full 10");
  EXPECT_EQ(of(section + "selective_ac_option = \"1\"\n"), "full 0");  // all
  EXPECT_EQ(of(section + "selective_ac_option = \"0\"\n"), "full 0");
  EXPECT_EQ(of(section + "selective_ac_option = \"64\"\n"), "none 0");
  EXPECT_EQ(of(section + "mode = \"full\"\nselective_ac_option = \"3\"\n"), "full 0");
  EXPECT_EQ(of(section + "mode = \"none\"\n"), "none 0");
  EXPECT_EQ(of(section + "mode = \"memory_budget\"\nmemory_budget = 0.3\n"), "none 0");
  EXPECT_EQ(of(section + "selective_ac_option = \"3\"\n[parallelism]\n"
                         "pipeline_parallel_degree = 4\n"),
            "full 2");
  for (const char* wrong : {"Op", "-1", "two", ""})
    EXPECT_THAT(message_of<InputError>([&] {
                  (void)of(section + fmt::format("selective_ac_option = \"{}\"\n", wrong));
                }),
                HasSubstr("selective_ac_option"))
        << wrong;
}

TEST(Torchtitan, RecomputesOperations) {
  const std::string section = "[activation_checkpoint]\nselective_ac_option = \"op\"\n";
  const Imported in = read(toml(section));
  EXPECT_EQ(in.given.at("recompute"), "selective");
  EXPECT_EQ(in.given.at("recompute_modules"), "norm+activation+up+keys+attention-output");
  EXPECT_TRUE(in.missing.empty());
  EXPECT_TRUE(is_among(read(toml(section + "[parallelism]\ntensor_parallel_degree = 2\n")).missing,
                       "activation_checkpoint.mode"));
}

TEST(Torchtitan, NamesItsProgramByWhatIsCompiled) {
  const auto program = [](const std::string& more) {
    return read(toml(more)).given.at("program").get<std::string>();
  };
  const std::string eager =
      "torchtitan~pytorch-norms+torchtitan-eager-layers+torchtitan-eager-loss";
  EXPECT_EQ(program(""), eager);
  EXPECT_EQ(program("[training]\ncompile = false\n"), eager);
  EXPECT_EQ(program("[training]\ncompile = true\nbatch_size = 1\n"),
            "torchtitan+torchtitan-eager-loss");
  EXPECT_EQ(program("[training]\ncompile = true\nlocal_batch_size = 1\n"), "torchtitan");
  EXPECT_EQ(program("[compile]\nenable = true\n"), "torchtitan");
  EXPECT_EQ(program("[parallelism]\npipeline_parallel_degree = 2\n"),
            eager + "~outer-weights-stay~last-layer-weights-stay");
}

TEST(Torchtitan, FlagsAnswerBeforeTheFile) {
  ImportOptions options{.variables = {}, .ranks = 8, .global_batch = 64};
  options.given = {
      {"microbatch_size", 2}, {"recompute", "none"}, {"type", "f32"}, {"sequence_length", 1024}};
  const Imported in = read(toml("[training]\nlocal_batch_size = 4\nseq_len = 8192\n"
                                "global_batch_size = 32\ndtype = \"bfloat16\"\n"
                                "[activation_checkpoint]\nmode = \"full\"\n"),
                           options);
  for (const char* said :
       {"training.local_batch_size", "training.seq_len", "training.global_batch_size",
        "training.dtype", "activation_checkpoint.mode"})
    EXPECT_TRUE(is_among(in.same, said)) << said;
}

}  // namespace
}  // namespace frugal::harness
