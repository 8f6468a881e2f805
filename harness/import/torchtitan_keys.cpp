#include "harness/import/torchtitan.h"

namespace frugal::harness {

std::vector<KnownKeys> torchtitan_without_effect() {
  return {{"job",
           {"config_file", "description", "dump_folder", "print_args", "print_config",
            "save_config_file", "save_config_folder", "use_for_integration_test"},
           "what is reported of a run"},
          {"profiling",
           {"enable_profiling", "profile_every_x_iter", "profile_freq", "profiler_active",
            "profiler_warmup", "run_profiler", "save_traces_folder", "enable_memory_snapshot",
            "save_memory_snapshot_folder"},
           "what is reported of a step; the steps that are recorded take longer"},
          {"metrics",
           {"log_freq", "enable_tensorboard", "enable_color_printing", "disable_color_printing",
            "disable_logging_from_checkpoint", "save_tb_folder", "save_for_all_ranks",
            "rank_0_only", "enable_wandb"},
           "what is reported of a run"},
          {"comm",
           {"init_timeout_seconds", "train_timeout_seconds", "trace_buf_size", "save_traces_folder",
            "save_traces_file_prefix"},
           "how long processes wait for each other, and what is reported then"},
          {"model",
           {"tokenizer_path", "hf_assets_path", "print_after_conversion"},
           "where files lie, and what is reported"},
          {"checkpoint",
           {"enable", "enable_checkpoint", "enable_first_step_checkpoint",
            // Writing.
            "export_dtype", "folder", "interval", "interval_type", "keep_latest_k",
            "last_save_in_hf", "last_save_in_safetensors_format", "last_save_model_only",
            "last_save_model_weights_only", "model_weights_only", "create_seed_checkpoint",
            // Reading.
            "enable_ft_dataloader_checkpoints", "exclude_from_loading", "initial_load_in_hf",
            "initial_load_in_hf_quantized", "initial_load_model_only",
            "initial_load_model_weights_only", "initial_load_path", "load_only", "load_step"},
           "what is read and written between steps"},
          {"training",
           {"dataset", "dataset_path", "steps", "warmup_steps", "gc_freq", "gc_debug"},
           "which data is read, how long the training is, and when Python collects garbage"},
          {"lr_scheduler",
           {"warmup_steps", "total_steps", "decay_ratio", "decay_type", "min_lr_factor", "lr_min"},
           "a number of the optimizer"},
          {"optimizer", {"beta1", "beta2", "eps"}, "a number of the optimizer"},
          {"activation_checkpoint",
           {"preserve_rng_state", "determinism_check"},
           "a random state of some bytes, and what is checked of what is computed again"},
          {"debug", {"deterministic_warn_only"}, "what is reported"}};
}

namespace {

/// Keys that choose other number types or a compiler for the computation.
std::vector<KnownKeys> of_products() {
  return {
      {"compile",
       {"enable", "components", "backend"},
       "kernels that a compiler fuses: fewer bytes are moved and kept"},
      {"training", {"compile"}, "kernels that a compiler fuses: fewer bytes are moved and kept"},
      {"float8",
       {"enable_float8_linear", "enable_fsdp_float8_all_gather",
        "precompute_float8_dynamic_scale_for_fsdp", "force_recompute_fp8_weight_in_bwd",
        "recipe_name", "filter_fqns", "moe_fqns_prototype", "emulate", "scaling_type_input",
        "scaling_type_weight", "scaling_type_grad_output"},
       "products in 8 bits, whose time a virtual machine has (float8-products); memory and results "
       "are those of 16 bits"},
      {"mx",
       {"recipe_name", "filter_fqns", "moe_fqns_prototype", "mxfp8_dim1_cast_kernel_choice",
        "use_fp8_dim1_cast_triton_kernel"},
       "products in 8 bits: up to twice their speed; frugal computes them in 16 bits"},
      {"quantize",
       {"linear.float8.emulate", "linear.float8.enable_fsdp_float8_all_gather",
        "linear.float8.filter_fqns", "linear.float8.precompute_float8_dynamic_scale_for_fsdp",
        "linear.float8.recipe_name", "linear.mx.filter_fqns",
        "linear.mx.mxfp8_dim1_cast_kernel_choice", "linear.mx.recipe_name",
        // Of models with experts.
        "dense.float8.emulate", "dense.float8.enable_fsdp_float8_all_gather",
        "dense.float8.filter_fqns", "dense.float8.precompute_float8_dynamic_scale_for_fsdp",
        "dense.float8.recipe_name", "dense.mx.filter_fqns",
        "dense.mx.mxfp8_dim1_cast_kernel_choice", "dense.mx.recipe_name", "grouped_mm.float8.fqns",
        "grouped_mm.mx.fqns", "grouped_mm.mx.recipe_name", "moe.float8.fqns", "moe.mx.fqns"},
       "products in 8 bits: up to twice their speed; frugal computes them in 16 bits"},
      {"training",
       {"enable_float8_linear", "enable_fp8_linear", "fp8_linear", "enable_fsdp_float8_all_gather",
        "enable_fsdp_fp8_all_gather", "precompute_float8_dynamic_scale_for_fsdp",
        "float8_scaling_type_input", "float8_scaling_type_weight",
        "float8_scaling_type_grad_output"},
       "products in 8 bits: up to twice their speed; frugal computes them in 16 bits"},
      {"model",
       {"converters"},
       "linear maps of another kind, such as products in 8 bits; frugal computes them in 16 bits"}};
}

/// Keys that change what is divided or kept, or how the optimizer steps.
std::vector<KnownKeys> of_memory() {
  return {
      {"model", {"attn_mask_type"}, "which positions a position sees", {"\"causal\""}},
      {"model", {"use_flex_attn"}, "another kernel of attention"},
      {"optimizer",
       {"implementation"},
       "more kernels a step; \"foreach\" has temporary memory of the size of the weights",
       {"\"fused\""}},
      {"optimizer", {"fused"}, "more kernels a step", {"true"}},
      {"optimizer",
       {"state_dtype"},
       "the type of the optimizer's state; frugal's is float32, or bf16 with --precision pure",
       {"\"float32\""}},
      {"parallelism",
       {"enable_async_tensor_parallel"},
       "collectives of tensor parallelism beside its products"},
      {"experimental",
       {"enable_async_tensor_parallel"},
       "collectives of tensor parallelism beside its products"},
      {"parallelism", {"enable_compiled_autograd"}, "a backward pass that a compiler fuses"},
      {"experimental", {"enable_compiled_autograd"}, "a backward pass that a compiler fuses"},
      {"parallelism", {"disable_loss_parallel"}, "logits that every rank has all of"},
      {"training", {"disable_loss_parallel"}, "logits that every rank has all of"},
      {"training", {"enable_loss_parallel"}, "logits that every rank has all of", {"true"}},
      {"training",
       {"enable_cpu_offload"},
       "weights, gradients and the optimizer's state in the host's memory, and its step there"},
      {"parallelism",
       {"expert_parallel_degree", "expert_tensor_parallel_degree"},
       "how experts are divided",
       {"1"}},
      {"parallelism", {"expert_parallel_comm_backend"}, "how experts are called", {"\"standard\""}},
      {"parallelism", {"pipeline_parallel_expert_parallel_overlap"}, "there are experts", {"true"}},
      {"debug", {"moe_force_load_balance"}, "there are experts"},
      {"training", {"debug_moe_force_load_balance"}, "there are experts"},
      {"training", {"deterministic"}, "slower algorithms of the same operations"},
      {"debug", {"deterministic"}, "slower algorithms of the same operations"},
      {"training",
       {"dataloader.num_workers", "dataloader.persistent_workers", "dataloader.pin_memory",
        "dataloader.prefetch_factor"},
       "host memory of batches that wait",
       {"0", "false"}}};
}

/// Keys for what surrounds the training, and for recomputation that frugal does otherwise.
std::vector<KnownKeys> of_the_rest() {
  return {{"activation_checkpoint",
           {"per_op_sac_force_recompute_mm_shapes_by_fqns"},
           "which products are computed again",
           {"[\"moe.router.gate\"]", "[]"}},
          {"activation_checkpoint", {"early_stop"}, "products that need not be computed again"},
          {"activation_checkpoint", {"debug"}, "slower recomputation"},
          {"activation_checkpoint", {"visualize_memory_budget_pareto"}, "what a compiler tries"},
          {"checkpoint",
           {"async_mode"},
           "a copy of the training's state in the host's memory",
           {"\"disabled\""}},
          {"validation",
           {"enable", "enabled", "dataset", "dataset_path", "local_batch_size", "seq_len", "freq",
            "steps", "dataloader.num_workers", "dataloader.persistent_workers",
            "dataloader.pin_memory", "dataloader.prefetch_factor"},
           "forward passes of other batches between steps"},
          {"memory_estimation",
           {"enable", "enabled", "disable_fake_mode"},
           "an estimate in place of a training"},
          {"estimate", {"memory", "mode"}, "an estimate in place of a training"},
          {"fault_tolerance",
           {"enable", "fragment_sync_delay", "fragment_update_alpha", "group_size",
            "min_replica_size", "module_fqns_per_model_fragment", "num_fragments", "process_group",
            "process_group_timeout_ms", "replica_id", "semi_sync_method", "should_quantize",
            "sync_steps"},
           "replicas that come and go, and what they exchange"},
          {"comm", {"mode"}, "processes that do not communicate", {"\"default\""}},
          {"job", {"custom_config_module"}, "a module of one's own, which can change anything"},
          {"experimental",
           {"custom_import", "custom_args_module", "custom_model_path", "torch_spmd"},
           "a module of one's own, which can change anything"}};
}

}  // namespace

std::vector<KnownKeys> torchtitan_missing() {
  std::vector<KnownKeys> all;
  for (const auto& part : {of_products(), of_memory(), of_the_rest()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

KnownKeys torchtitan_stages(std::string_view section) {
  return {section,
          {"module_fqns_per_model_part", "pipeline_parallel_split_points",
           "pipeline_parallel_split_mode", "pipeline_parallel_schedule_csv",
           "pipeline_parallel_microbatches", "pipeline_parallel_microbatch_size",
           "pipeline_parallel_schedule", "pipeline_parallel_layers_per_stage",
           "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers"},
          "how layers are divided into stages, and a batch into microbatches"};
}

KnownKeys torchtitan_contexts(std::string_view section) {
  return {section,
          {"context_parallel_rotate_method", "context_parallel_load_balancer"},
          "keys and values come to all ranks at once, or otherwise; in frugal they travel around a "
          "ring, each rank having an early and a late part"};
}

}  // namespace frugal::harness
