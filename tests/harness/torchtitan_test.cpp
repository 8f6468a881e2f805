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
/// TOML, until 9810191bb (23 February 2026), behind their sections.
constexpr const char* every_key = R"(
activation_checkpoint: debug determinism_check early_stop memory_budget mode
  per_op_sac_force_recompute_mm_shapes_by_fqns preserve_rng_state selective_ac_option
  visualize_memory_budget_pareto
checkpoint: async_mode create_seed_checkpoint enable enable_checkpoint enable_first_step_checkpoint
  enable_ft_dataloader_checkpoints exclude_from_loading export_dtype folder initial_load_in_hf
  initial_load_in_hf_quantized initial_load_model_only initial_load_model_weights_only
  initial_load_path interval interval_type keep_latest_k last_save_in_hf
  last_save_in_safetensors_format last_save_model_only last_save_model_weights_only load_only
  load_step model_weights_only
comm: init_timeout_seconds mode save_traces_file_prefix save_traces_folder trace_buf_size
  train_timeout_seconds
compile: backend components enable
debug: deterministic deterministic_warn_only moe_force_load_balance seed
estimate: memory mode
experimental: context_parallel_degree context_parallel_rotate_method custom_args_module
  custom_import custom_model_path enable_async_tensor_parallel enable_compiled_autograd
  pipeline_parallel_degree pipeline_parallel_microbatches pipeline_parallel_schedule
  pipeline_parallel_schedule_csv pipeline_parallel_split_mode pipeline_parallel_split_points
  torch_spmd
fault_tolerance: enable fragment_sync_delay fragment_update_alpha group_size min_replica_size
  module_fqns_per_model_fragment num_fragments process_group process_group_timeout_ms replica_id
  semi_sync_method should_quantize sync_steps
float8: emulate enable_float8_linear enable_fsdp_float8_all_gather filter_fqns
  force_recompute_fp8_weight_in_bwd moe_fqns_prototype precompute_float8_dynamic_scale_for_fsdp
  recipe_name scaling_type_grad_output scaling_type_input scaling_type_weight
job: config_file custom_config_module description dump_folder print_args print_config
  save_config_file save_config_folder use_for_integration_test
lr_scheduler: decay_ratio decay_type lr_min min_lr_factor total_steps warmup_steps
memory_estimation: disable_fake_mode enable enabled
metrics: disable_color_printing disable_logging_from_checkpoint enable_color_printing
  enable_tensorboard enable_wandb log_freq rank_0_only save_for_all_ranks save_tb_folder
model: attn_mask_type converters flavor hf_assets_path name norm_type print_after_conversion
  tokenizer_path use_flex_attn
mx: filter_fqns moe_fqns_prototype mxfp8_dim1_cast_kernel_choice recipe_name
  use_fp8_dim1_cast_triton_kernel
optimizer: beta1 beta2 early_step_in_backward eps fused implementation lr name weight_decay
parallelism: context_parallel_degree context_parallel_load_balancer context_parallel_rotate_method
  data_parallel_replicate_degree data_parallel_shard_degree disable_loss_parallel
  enable_async_tensor_parallel enable_compiled_autograd expert_parallel_comm_backend
  expert_parallel_degree expert_tensor_parallel_degree fsdp_reshard_after_forward
  module_fqns_per_model_part pipeline_parallel_degree pipeline_parallel_expert_parallel_overlap
  pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers
  pipeline_parallel_layers_per_stage pipeline_parallel_microbatch_size
  pipeline_parallel_microbatches pipeline_parallel_schedule pipeline_parallel_schedule_csv
  pipeline_parallel_split_points tensor_parallel_degree
profiling: enable_memory_snapshot enable_profiling profile_every_x_iter profile_freq profiler_active
  profiler_warmup run_profiler save_memory_snapshot_folder save_traces_folder
quantize.dense.float8: emulate enable_fsdp_float8_all_gather filter_fqns
  precompute_float8_dynamic_scale_for_fsdp recipe_name
quantize.dense.mx: filter_fqns mxfp8_dim1_cast_kernel_choice recipe_name
quantize.grouped_mm.float8: fqns
quantize.grouped_mm.mx: fqns recipe_name
quantize.linear.float8: emulate enable_fsdp_float8_all_gather filter_fqns
  precompute_float8_dynamic_scale_for_fsdp recipe_name
quantize.linear.mx: filter_fqns mxfp8_dim1_cast_kernel_choice recipe_name
quantize.moe.float8: fqns
quantize.moe.mx: fqns
training: batch_size compile data_parallel_degree data_parallel_replicate_degree
  data_parallel_shard_degree data_parallel_type dataset dataset_path debug_moe_force_load_balance
  deterministic disable_loss_parallel dtype enable_cpu_offload enable_float8_linear
  enable_fp8_linear enable_fsdp_float8_all_gather enable_fsdp_fp8_all_gather enable_loss_parallel
  float8_scaling_type_grad_output float8_scaling_type_input float8_scaling_type_weight fp8_linear
  fsdp_reshard_after_forward gc_debug gc_freq global_batch_size local_batch_size max_norm
  mixed_precision_param mixed_precision_reduce pipeline_parallel_degree
  precompute_float8_dynamic_scale_for_fsdp seed seq_len steps tensor_parallel_degree warmup_steps
training.dataloader: num_workers persistent_workers pin_memory prefetch_factor
validation.dataloader: num_workers persistent_workers pin_memory prefetch_factor
validation: dataset dataset_path enable enabled freq local_batch_size seq_len steps)";

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
  std::istringstream words(every_key);
  std::string section;
  for (std::string word; words >> word;) {
    if (word.back() == ':') {
      section = word.substr(0, word.size() - 1) + '.';
      continue;
    }
    const std::string key = section + word;
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
