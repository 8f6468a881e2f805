#include "harness/import/deepspeed.h"

namespace frugal::harness {
namespace {

const std::vector<std::string_view> scheduler_params = {
    "params.lr_range_test_min_lr", "params.lr_range_test_step_rate",
    "params.lr_range_test_step_size", "params.lr_range_test_staircase", "params.warmup_min_lr",
    "params.warmup_max_lr", "params.warmup_num_steps", "params.warmup_type",
    "params.warmup_min_ratio", "params.cos_min_ratio", "params.total_num_steps",
    "params.last_batch_iteration", "params.warmup_ratio", "type",
    // Of a rate that goes up and down.
    "params.cycle_min_lr", "params.cycle_max_lr", "params.decay_lr_rate",
    "params.cycle_first_step_size", "params.cycle_second_step_size",
    "params.cycle_first_stair_count", "params.cycle_second_stair_count", "params.decay_step_size",
    "params.cycle_momentum", "params.cycle_min_mom", "params.cycle_max_mom",
    "params.decay_mom_rate"};

std::vector<KnownKeys> reports() {
  constexpr std::string_view what = "what is reported of a step";
  return {
      {"",
       {"steps_per_print", "wall_clock_breakdown", "dump_state", "memory_breakdown", "log_level",
        "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "vocabulary_size"},
       "what is reported and checked"},
      {"tensorboard", {"enabled", "output_path", "job_name"}, what},
      {"wandb", {"enabled", "group", "team", "project"}, what},
      {"comet",
       {"enabled", "samples_log_interval", "project", "workspace", "api_key", "experiment_name",
        "experiment_key", "online", "mode"},
       what},
      {"csv_monitor", {"enabled", "output_path", "job_name"}, what},
      {"comms_logger", {"enabled", "verbose", "prof_all", "debug", "prof_ops"}, what},
      {"flops_profiler",
       {"enabled", "recompute_fwd_factor", "profile_step", "module_depth", "top_modules",
        "detailed", "output_file"},
       what},
      {"timers", {"throughput.enabled", "throughput.synchronized"}, what}};
}

std::vector<KnownKeys> zero_missing() {
  constexpr std::string_view how =
      "how ZeRO divides and gathers: the sizes of its buckets, and when";
  constexpr std::string_view offload = "how the optimizer's state is kept in host memory";
  return {{"zero_optimization",
           {"reduce_bucket_size", "allgather_bucket_size", "sub_group_size", "prefetch_bucket_size",
            "stage3_prefetch_bucket_size", "param_persistence_threshold",
            "stage3_param_persistence_threshold", "model_persistence_threshold",
            "stage3_model_persistence_threshold", "max_live_parameters",
            "stage3_max_live_parameters", "max_reuse_distance", "stage3_max_reuse_distance",
            "module_granularity_threshold", "stage3_module_granularity_threshold", "overlap_comm"},
           how,
           {"null"}},
          {"zero_optimization",
           {"contiguous_gradients", "reduce_scatter", "allgather_partitions",
            "use_multi_rank_bucket_allreduce", "memory_efficient_linear"},
           how,
           {"true"}},
          {"zero_optimization",
           {"round_robin_gradients", "legacy_stage1", "use_all_reduce_for_fetch_params",
            "stage3_use_all_reduce_for_fetch_params", "allgather_sequential",
            "stage3_allgather_sequential", "mics_hierarchical_params_gather",
            "enable_sanity_checks", "save_muon_momentum_buffer_in_memory", "grad_hooks",
            "leaf_module.classes", "leaf_module.names", "leaf_module.name_suffixes"},
           how},
          {"zero_optimization",
           {"zero_hpz_partition_size"},
           "a second division of weights",
           {"1", "0"}},
          {"zero_optimization",
           {"zero_quantized_weights", "zero_quantized_nontrainable_weights",
            "zero_quantized_gradients"},
           "weights or gradients that are exchanged in fewer bits"},
          {"zero_optimization.zeropp_loco_param",
           {"*"},
           "errors of what is exchanged in fewer bits, which are kept"},
          {"zero_optimization.zenflow", {"*"}, "gradients that step on the processor, a step late"},
          {"zero_optimization",
           {"offload_param.device", "offload_param.nvme_path"},
           "weights in host memory or on disks",
           {"\"none\"", "null"}},
          {"zero_optimization",
           {"offload_param.buffer_count", "offload_param.buffer_size", "offload_param.max_in_cpu",
            "offload_param.pin_memory"},
           "how weights are kept in host memory"},
          {"zero_optimization",
           {"cpu_offload_param", "cpu_offload_params"},
           "weights in host memory or on disks"},
          {"zero_optimization",
           {"offload_optimizer.nvme_path", "offload_optimizer.buffer_count",
            "offload_optimizer.pin_memory", "offload_optimizer.pipeline",
            "offload_optimizer.pipeline_read", "offload_optimizer.pipeline_write",
            "offload_optimizer.fast_init", "offload_optimizer.super_offload",
            "offload_optimizer.cpuadam_cores_perc", "cpu_offload_use_pin_memory"},
           offload},
          {"zero_optimization",
           {"offload_optimizer.ratio"},
           "state of which a part stays",
           {"1.0", "1"}}};
}

std::vector<KnownKeys> other_trainings() {
  constexpr std::string_view other = "another training";
  return {
      {"compression_training", {"*"}, other},
      {"quantize_training", {"*"}, other},
      {"weight_quantization", {"*"}, other},
      {"curriculum_learning", {"*"}, "shorter sequences at first"},
      {"data_efficiency", {"*"}, "shorter sequences at first, or tokens that skip layers"},
      {"progressive_layer_drop", {"enabled", "theta", "gamma"}, "layers that are skipped"},
      {"eigenvalue",
       {"enabled", "verbose", "max_iter", "tol", "stability", "gas_boundary_resolution",
        "layer_name", "layer_num"},
       "products besides, between steps"},
      {"autotuning", {"*"}, "a search for other values of this file"},
      {"elasticity", {"*"}, "another batch, which follows from how many ranks there are"},
      {"hybrid_engine", {"*"}, "text that is generated between steps"},
      {"nebula", {"*"}, "checkpoints through a service of their own"},
      {"datastates", {"*"}, "checkpoints that are written beside steps"},
      {"amp", {"*"}, "mixed precision by another library"},
      {"torch_autocast",
       {"enabled", "dtype", "lower_precision_safe_modules"},
       "weights in float32 that are computed with in 16 bits"},
      {"aio",
       {"block_size", "queue_depth", "intra_op_parallelism", "single_submit", "overlap_events",
        "use_gds", "thread_count"},
       "how disks are read"},
      {"compile", {"*"}, "kernels that a compiler fuses, and what it moves"},
      {"expert_parallel", {"*"}, "how experts are divided"},
      {"tensor_parallel", {"*"}, "DeepSpeed's tensor parallelism; --tensor-parallel is frugal's"},
      {"pipeline", {"*"}, "DeepSpeed's pipeline; --pipeline-parallel is frugal's"},
      {"sparse_attention",
       {"mode", "block", "different_layout_per_head", "num_local_blocks", "num_global_blocks",
        "attention", "horizontal_global_attention", "num_different_global_patterns",
        "num_random_blocks", "local_window_blocks", "global_block_indices",
        "global_block_end_indices", "num_sliding_window_blocks"},
       "attention to some positions only"}};
}

}  // namespace

std::vector<KnownKeys> deepspeed_without_effect() {
  std::vector<KnownKeys> all = reports();
  constexpr std::string_view number =
      "a number of the optimizer; a step computes the same with any";
  all.push_back({"optimizer", {"params.betas", "params.eps", "params.bias_correction"}, number});
  all.push_back({"scheduler", scheduler_params, number});
  all.push_back({"",
                 {"gradient_predivide_factor", "prescale_gradients", "gradient_allreduce_op",
                  "loss_scale", "initial_scale_power"},
                 "a number that gradients are multiplied by"});
  all.push_back({"fp16",
                 {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                  "consecutive_hysteresis", "min_loss_scale", "auto_cast"},
                 "a number that gradients are multiplied by"});
  all.push_back({"bf16", {"check_grad_overflow", "check_overflow"}, "what is checked"});
  all.push_back({"checkpoint",
                 {"tag_validation", "load_universal", "use_node_local_storage",
                  "parallel_write.pipeline_stage"},
                 "what happens between steps"});
  all.push_back({"zero_optimization",
                 {"load_from_fp32_weights", "elastic_checkpoint", "ignore_unused_parameters",
                  "gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save",
                  "stage3_gather_fp16_weights_on_model_save", "pipeline_loading_checkpoint",
                  "override_module_apply", "log_trace_cache_warnings"},
                 "what happens between steps"});
  all.push_back({"", {"seed", "dataloader_drop_last"}, "which data is read"});
  return all;
}

std::vector<KnownKeys> deepspeed_missing() {
  std::vector<KnownKeys> all = zero_missing();
  for (KnownKeys& line : other_trainings()) all.push_back(std::move(line));
  const std::vector<KnownKeys> others = {
      {"optimizer", {"params.amsgrad"}, "a third state of the optimizer"},
      {"optimizer",
       {"params.torch_adam", "params.fused", "params.foreach", "legacy_fusion"},
       "other kernels of the optimizer's step"},
      {"optimizer", {"params.nesterov"}, "another rule of the momentum"},
      {"optimizer",
       {"params.max_grad_norm"},
       "DeepSpeed refuses it; gradient_clipping is the key",
       {"0", "0.0"}},
      {"optimizer",
       {"params.freeze_step", "params.cuda_aware", "params.comm_backend_name",
        "params.var_freeze_step", "params.var_update_scaler", "params.local_step_scaler",
        "params.local_step_clipper", "params.max_coeff", "params.min_coeff", "params.coeff_beta",
        "params.factor_max", "params.factor_min", "params.factor_threshold", "params.muon_lr",
        "params.adam_lr", "params.ns_method"},
       "a number of an optimizer that frugal does not have"},
      {"activation_checkpointing",
       {"partition_activations", "cpu_checkpointing", "contiguous_memory_optimization",
        "number_checkpoints", "synchronize_checkpoint_boundary", "profile"},
       "where and how inputs of recomputed layers are kept"},
      {"data_types", {"grad_accum_dtype"}, "the type of gradients", {"\"fp32\"", "null"}},
      {"data_types", {"param_dtype", "buffer_dtype"}, "the type of weights"},
      {"bf16",
       {"bf16_master_weights_and_grads", "bf16_optimizer_states"},
       "the type of gradients and the optimizer's state; both are --precision pure"},
      {"bf16",
       {"immediate_grad_update"},
       "when gradients are summed in float32",
       {"true", "false"}},
      {"", {"fp16_master_weights_and_grads"}, "the type of gradients and the optimizer's state"},
      {"fp16",
       {"fp16_master_weights_and_grads"},
       "the type of gradients and the optimizer's state"},
      {"", {"sparse_gradients"}, "gradients of the embedding by their rows"},
      {"", {"disable_allgather"}, "how weights come to all ranks"},
      {"", {"graph_harvesting"}, "CUDA graphs: less time to launch kernels"},
      {"", {"managed_gradient_accumulation"}, "when a step is made", {"true"}},
      {"", {"use_data_before_expert_parallelism"}, "which ranks have which experts"},
      {"",
       {"sequence_parallel_size"},
       "ranks that share a sequence; --context-parallel is frugal's",
       {"1"}},
      {"", {"seq_parallel_communication_data_type"}, "the type of what such ranks exchange"}};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace frugal::harness
