// Every field that an import gives, and every number in its notes, computed a second time by the
// definition of the program whose configuration it is. Sizes are distinct, so that none can stand
// for another.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/import/argument_list.h"
#include "harness/import/imported.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using Notes = std::vector<std::string>;

/// Result of an import: all of its fields, and some of its notes, "missing: --x 1 -> why".
void expect_reads(const char* format, const std::string& text, const ImportOptions& options,
                  const json& fields, const Notes& notes = {}) {
  SCOPED_TRACE(text);
  const Imported in = import_configuration(format, text, "mine", options);
  EXPECT_EQ(json::diff(fields, in.given).dump(), "[]");
  Notes all;
  for (const auto& [list, parts] :
       {std::pair{"mapped", &in.mapped}, {"missing", &in.missing}, {"assumed", &in.assumed}})
    for (const auto& [said, what] : *parts)
      all.push_back(fmt::format("{}: {} -> {}", list, said, what));
  for (const std::string& note : notes) EXPECT_THAT(all, ::testing::Contains(note));
}

ImportOptions with_ranks(std::optional<int64_t> ranks, json given = json::object(),
                         std::optional<int64_t> batch = {}) {
  return {.variables = {}, .ranks = ranks, .global_batch = batch, .given = std::move(given)};
}

/// The fields with others in their place, as JSON with comments; null takes one away.
json with_fields(json fields, const char* others) {
  fields.merge_patch(json::parse(others, nullptr, true, true));
  return fields;
}

/// Megatron-LM, megatron/training/arguments.py, of t 2 x p 3 x c 6 x d 7 ranks. Scaled rotary
/// positions are those of rotary_pos_embedding.py, _apply_scaling().
TEST(ImportValues, OfMegatronWithADistinctSizeInEveryDimension) {
  const std::string list =
      "--num-layers 18 --hidden-size 96 --num-attention-heads 8 --kv-channels 20 "
      "--ffn-hidden-size 352 --group-query-attention --num-query-groups 4 --seq-length 640 "
      "--normalization RMSNorm --norm-epsilon 3e-6 --swiglu --disable-bias-linear --add-qkv-bias "
      "--position-embedding-type rope --rotary-base 700000 --use-rope-scaling "
      "--rope-scaling-factor 16 --window-size 128,0 --untie-embeddings-and-output-weights "
      "--hidden-dropout 0.25 --attention-dropout 0.25 --vocab-size 50257 "
      "--make-vocab-size-divisible-by 100 --tensor-model-parallel-size 2 --sequence-parallel "
      "--pipeline-model-parallel-size 3 --num-layers-per-virtual-pipeline-stage 2 "
      "--context-parallel-size 6 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 3 "
      "--micro-batch-size 4 --global-batch-size 308 "
      "--microbatch-group-size-per-virtual-pipeline-stage 5 --use-distributed-optimizer "
      "--num-distributed-optimizer-instances 3 --recompute-granularity full "
      "--recompute-method block --recompute-num-layers 1 --attention-backend flash "
      "--fp16-lm-cross-entropy --grad-reduce-in-bf16 --optimizer-cpu-offload --bf16 "
      "--optimizer sgd --sgd-momentum 0.8 --lr 0.003 --weight-decay 0.02 --clip-grad 0.7 --seed 77";
  const json fields = with_fields({}, R"({
    "layers": 18, "hidden_size": 96, "attention_heads": 8, "head_size": 20,
    "intermediate_size": 352, "key_value_heads": 4, "sequence_length": 640, "norm": "rms-norm",
    "norm_epsilon": 3e-6, "mlp": "swiglu", "bias": "qkv", "positions": "rotary",
    "rotary": {"base": 7e5, "factor": 16, "bands": {"low": 1, "high": 4, "original": 8192}},
    "window": 129,  // 128 before it, and the position itself
    "tied_embeddings": false, "dropout": 0.25, "stored_masks": true,
    "vocabulary_size": 50400,  // 50257 in whole 100 x t
    "tensor_parallel_size": 2, "sequence_parallel": true, "pipeline_parallel_size": 3,
    "chunks": 3, "schedule": "interleaved",  // 18 layers / p / 2
    "context_parallel_size": 6, "context": "zigzag", "ulysses_size": 2, "data_parallel_size": 7,
    "microbatch_size": 4, "microbatches": 11,  // 308 / 4 / d
    "shard": "optimizer", "shard_size": 14,  // d c / 3
    "recompute": "full", "recompute_layers": 1, "attention": "fused", "narrow_logits": true,
    "narrow_reduction": true, "overlap_grad_reduce": false, "offload_optimizer": true,
    "type": "bf16", "optimizer": "momentum", "momentum": 0.8, "learning_rate": 0.003,
    "weight_decay": 0.02, "clip": 0.7, "seed": 77,
    "program": "megatron-core+flash-attention~copied-logits"})");
  expect_reads(
      "megatron", list, with_ranks(2 * 3 * 6 * 7), fields,
      {"mapped: --world-size 252 -> data_parallel_size=7",
       "mapped: --global-batch-size 308 -> microbatches=11: of each of 7 replicas",
       "mapped: --num-distributed-optimizer-instances 3 -> shard_size=14: of 42 ranks that have "
       "the same weights",
       "mapped: --vocab-size 50257 --make-vocab-size-divisible-by 100 -> vocabulary_size=50400: "
       "50257 tokens, padded to a multiple of 200",
       // 11 microbatches of 3 stages in 3 groups are of 4; a larger one has 1 more in 2 parts.
       "missing: --microbatch-group-size-per-virtual-pipeline-stage 5 -> frugal's groups are of "
       "4: 2 activations of a part fewer in flight on every stage"});
  // Arguments beside the list go before it; a vocabulary is padded all the same.
  expect_reads("megatron", list,
               with_ranks(252,
                          {{"vocabulary_size", 1001},
                           {"microbatch_size", 11},
                           {"sequence_length", 320},
                           {"recompute", "none"}},
                          5 * 7 * 11),
               with_fields(fields, R"({"vocabulary_size": 1200, "microbatch_size": 11,
    "sequence_length": 320, "microbatches": 5, "recompute": "none", "recompute_layers": null})"));
}

/// Arguments besides the fewest, and the fields that they give in the place of defaults.
const std::string with_rope = "--position-embedding-type rope ",
                  with_contexts = "--context-parallel-size 4 ",
                  with_stages = "--pipeline-model-parallel-size 3 ",
                  with_fsdp = "--use-megatron-fsdp --data-parallel-sharding-strategy ";
const std::vector<std::pair<std::string, const char*>> megatron_arguments = {
    {"--tokenizer-type BertWordPieceLowerCase", R"({"vocabulary_size": 30592})"},  // 30522
    {"--tokenizer-type BertWordPieceCase", R"({"vocabulary_size": 29056})"},       // 28996
    {"--padded-vocab-size 777 --vocab-size 5", R"({"vocabulary_size": 777})"},
    {"--vocab-size 385 --no-pad-vocab-size", R"({"vocabulary_size": 385})"},
    {"--vocab-size 385 --disable-pad-vocab-size", R"({"vocabulary_size": 385})"},
    // int(4 * hidden * 2 / 3 / 64) * 64
    {"--swiglu", R"({"mlp": "swiglu", "intermediate_size": 512})"},
    {"--quick-geglu", R"({"mlp": "geglu"})"},
    {"--glu-activation GEGLU --ffn-hidden-size 96", R"({"mlp": "geglu", "intermediate_size": 96})"},
    {"--glu-activation liglu", R"({"mlp": "geglu"})"},
    {"--normalization rmsnorm", R"({"norm": "rms-norm"})"},
    {"--normalization LayerNorm", R"({"norm": "layer-norm"})"},
    {"--group-query-attention", R"({"key_value_heads": 1})"},
    {"--num-key-value-heads 5", R"({"key_value_heads": 5})"},
    {"--disable-bias-linear", R"({"bias": "none"})"},
    {"--use-rotary-position-embeddings", R"({"positions": "rotary"})"},
    {with_rope + "--use-rope-scaling", R"({"positions": "rotary", "rotary": {"base": 10000,
             "factor": 8, "bands": {"low": 1, "high": 4, "original": 8192}}})"},
    {with_rope + "--rotary-seq-len-interpolation-factor 3",
     R"({"positions": "rotary", "rotary": {"base": 10000, "factor": 3}})"},
    {"--hidden-dropout 0", R"({"dropout": 0, "stored_masks": null})"},
    {"--optimizer adam", R"({"optimizer": "adamw"})"},
    {"--fp16", R"({"type": "bf16"})"},
    {"--global-batch-size 21", R"({"microbatches": 7})"},
    {with_contexts, R"({"context_parallel_size": 4, "context": "zigzag"})"},
    {with_contexts + "--cp-comm-type a2a", R"({"context_parallel_size": 4, "context": "ulysses"})"},
    {with_contexts + "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes \"[2 2]\"",
     R"({"context_parallel_size": 4, "context": "zigzag", "ulysses_size": 2})"},
    {"--use-distributed-optimizer", R"({"shard": "optimizer"})"},
    {"--zero-stage 0", "{}"},
    {"--zero-stage 1", R"({"shard": "optimizer"})"},
    {"--zero-stage 2", R"({"shard": "gradients"})"},
    {"--zero-stage 3", R"({"shard": "weights"})"},
    {"--use-torch-fsdp2", R"({"shard": "weights"})"},
    {with_fsdp + "no_shard", R"({"shard": "none"})"},
    {with_fsdp + "optim", R"({"shard": "optimizer"})"},
    {with_fsdp + "optim_grads", R"({"shard": "gradients"})"},
    {with_fsdp + "optim_grads_params", R"({"shard": "weights"})"},
    {"--cross-entropy-loss-fusion", R"({"program": "float32-loss"})"},
    {"--attention-backend unfused", R"({"attention": "separate", "program": "megatron-core"})"},
    {"--attention-backend flash", R"({"program": "megatron-core+flash-attention"})"},
    {"--transformer-impl local", R"({"attention": "separate", "program":
        "megatron-core~transformer-engine-workspace~flash-attention-copies~separate-attention-module+score-buffer"})"},
    {"--transformer-impl local --use-flash-attn",
     R"({"program": "megatron-core~transformer-engine-workspace~flash-attention-copies~separate-attention-module"})"},
    {"--transformer-impl local --no-masked-softmax-fusion", R"({"attention": "separate", "program":
        "megatron-core~transformer-engine-workspace~flash-attention-copies~separate-attention-module+score-buffer)"
                                                            R"(+wide-probabilities"})"},
    {"--ckpt-format torch_dist --fp16",
     R"({"program": "megatron-core+narrow-sums", "type": "bf16"})"},
    {"--use-mcore-models false", "{}"},
    {"--use-mcore-models --deterministic-mode",
     R"({"program": "megatron-core+pytorch-deterministic"})"},
    {"--use-mcore-models --log-num-zeros-in-grad",
     R"({"program": "megatron-core+megatron-zero-counts"})"},
    {"--no-create-attention-mask-in-dataloader", R"({"program": "megatron-core~batch-masks"})"},
    {"--use-mcore-models --bert-no-binary-head", R"({"program": "megatron-core~sentence-head"})"},
    {"--bert-no-binary-head", "{}"},
    {"--use-mcore-models --cross-entropy-loss-fusion --global-batch-size 3 "
     "--defer-embedding-wgrad-compute",
     R"({"program": "megatron-core+float32-loss+deferred-head-gradients"})"},
    {"--DDP-impl local --transformer-impl transformer_engine",
     R"({"program": "megatron-lm-2022"})"},
    {"--DDP-impl local", R"({"attention": "separate", "program": "megatron-lm-2022"})"},
    {"--deepspeed", R"({"attention": "separate", "program": "megatron-deepspeed-2022"})"},
    {"--recompute-activations", R"({"recompute": "selective"})"},
    {"--cpu-offloading-num-layers 5", R"({"offload": true, "offload_layers": 5,
             "offload_modules": "input+residual+norm+projection+core-attention+activation+mlp"})"},
    {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3",
     R"({"pipeline_parallel_size": 2, "chunks": 3, "schedule": "interleaved"})"},
    // A part has one layer, which is every one.
    {with_stages + "--num-layers-per-virtual-pipeline-stage 1 --recompute-granularity full "
                   "--recompute-method block --recompute-num-layers 1",
     R"({"pipeline_parallel_size": 3, "chunks": 2, "schedule": "interleaved",
         "recompute": "full"})"},
    {with_stages + "--decoder-first-pipeline-num-layers 4",
     R"({"pipeline_parallel_size": 3, "stage_layers": "4+2*1"})"},
    {with_stages + "--decoder-last-pipeline-num-layers 4",
     R"({"pipeline_parallel_size": 3, "stage_layers": "2*1+4"})"},
    {with_stages + "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 1",
     R"({"pipeline_parallel_size": 3, "stage_layers": "3+2+1"})"}};

/// Its defaults, and what one argument changes of them.
TEST(ImportValues, OfMegatronArgumentByArgument) {
  const std::string least =
      "--num-layers 6 --hidden-size 200 --num-attention-heads 5 --seq-length 48 "
      "--micro-batch-size 3 ";
  const json defaults = with_fields({}, R"({"layers": 6, "hidden_size": 200, "attention_heads": 5,
    "sequence_length": 48, "microbatch_size": 3, "weight_decay": 0.01, "seed": 1234,
    "dropout": 0.1, "stored_masks": true, "type": "f32", "data_parallel_size": 1,
    "microbatches": 1, "attention": "fused", "vocabulary_size": 50304})");
  const auto expect = [&](const std::string& more, const char* others, const Notes& notes = {}) {
    const bool sized = more.find("vocab") != std::string::npos || more.find("--tok") == 0;
    expect_reads("megatron", least + (sized ? "" : "--tokenizer-type GPT2BPETokenizer ") + more, {},
                 with_fields(defaults, others), notes);
  };
  expect("", "{}",
         {"mapped: --tokenizer-type GPT2BPETokenizer -> vocabulary_size=50304: 50257 "
          "tokens, padded to a multiple of 128"});
  for (const auto& [more, others] : megatron_arguments) expect(more, others);
  expect("--hidden-dropout 0.3", R"({"dropout": 0.3})",
         {"missing: --attention-dropout 0.1, by default -> frugal has one probability, for hidden "
          "states and attention; 0.3 stands for both"});
  expect("--max-position-embeddings 96", "{}",
         {"missing: --max-position-embeddings 96 -> rows of the positions' table; frugal's has "
          "sequence_length, 48"});
  // 48 x 3 tokens / c in 4 bytes: 200 columns / t, and 50560 / t.
  expect(
      "--defer-embedding-wgrad-compute --wgrad-deferral-limit 4 --sequence-parallel "
      "--tensor-model-parallel-size 5 --context-parallel-size 3 --global-batch-size 21",
      R"({"sequence_parallel": true, "tensor_parallel_size": 5, "context_parallel_size": 3,
             "context": "zigzag", "microbatches": 7, "vocabulary_size": 50560})",
      {"missing: --defer-embedding-wgrad-compute -> gradients of the output layer's weights are "
       "computed behind the last microbatch: until then the last stage keeps its inputs, 7680 "
       "bytes, and its logits' gradients, 1941504 bytes, of each of 4 microbatches"});
}

TEST(ImportValues, OfMegatronsSums) {
  const std::string list =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 2 --seq-length 32 --vocab-size 200 "
      "--micro-batch-size 1 --overlap-grad-reduce ";
  const auto overlap = [&](const std::string& more, int64_t ranks) {
    const json given =
        import_configuration("megatron", list + more, "mine", with_ranks(ranks)).given;
    return given.value("overlap_grad_reduce", json());
  };
  EXPECT_EQ(overlap("", 4), true);
  EXPECT_EQ(overlap("--bf16 --use-distributed-optimizer", 4), true);
  EXPECT_EQ(overlap("", 1), json()) << "nothing is summed";
  EXPECT_EQ(overlap("--use-torch-fsdp2", 4), json()) << "every pass sums";
  EXPECT_EQ(overlap("--bf16 --grad-reduce-in-bf16", 4), json()) << "which would take memory";
}

TEST(ImportValues, OfMegatronsBert) {
  expect_reads("megatron",
               "mpirun -np 6 python pretrain_bert.py --num-layers 4 --hidden-size 64 "
               "--num-attention-heads 2 --seq-length 32 --micro-batch-size 5 --bf16 "
               "--hidden-dropout 0 --attention-dropout 0 --padded-vocab-size 200\n",
               {}, with_fields({}, R"({"objective": "masked-token", "causal": false, "layers": 4,
    "hidden_size": 64, "attention_heads": 2, "sequence_length": 32, "vocabulary_size": 200,
    "microbatch_size": 5, "microbatches": 1, "data_parallel_size": 6, "dropout": 0,
    "overlap_grad_reduce": false, "attention": "fused", "type": "bf16", "weight_decay": 0.01, "seed": 1234})"));
}

/// The number of ranks by each launcher's own manual.
TEST(ImportValues, RanksAreThoseThatALauncherStarts) {
  const std::string slurm = "#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=7\n",
                    five = "#SBATCH -N 5\n#SBATCH --gres=gpu:a100:4\n",
                    of_node = "torchrun --nnodes $SLURM_NNODES --nproc_per_node ";
  const std::vector<std::tuple<std::string, std::optional<int64_t>, const char*>> launchers = {
      {"torchrun --nproc_per_node 8 --nnodes 3", 24, ""},
      {"torchrun --nproc-per-node=6", 6, ""},
      {"torchrun --nnodes 3", {}, "torchrun has no --nproc-per-node"},
      {"python -m torch.distributed.launch --nproc_per_node=4 --nnodes=5", 20, ""},
      {"python -m torch.distributed.run --nproc_per_node=4 --nnodes=7 --node_rank=2", 28, ""},
      {"srun -n 12 python", 12, ""},
      {"srun -N3 --ntasks-per-node=5 python", 15, ""},
      {"srun -N 3 python", {}, "srun has no --ntasks or --ntasks-per-node"},
      {slurm + "srun python", 21, ""},
      {slurm + "srun --nodes=2 python", 14, ""},
      {slurm + "#SBATCH -n 10\nsrun python", 10, ""},
      {five + "srun " + of_node + "$SLURM_GPUS_ON_NODE", 20, ""},
      {five + "#SBATCH --gpus-per-node=3\n" + of_node + "$SLURM_GPUS_PER_NODE", 15, ""},
      {"srun -n 1 torchrun --nproc_per_node 8", 8, ""},
      {"srun -n 2 torchrun --nproc_per_node 8", {}, "torchrun has no --nnodes"},
      {"mpirun -np 9 python", 9, ""},
      {"mpiexec -n 13 python", 13, ""},
      {"mpirun --hostfile hosts python", {}, "mpirun has no -n"},
      {"accelerate launch --num_machines 2 --num_processes 14", 14, ""},
      {"deepspeed --num_gpus 4 --num_nodes 3", 12, ""},
      {"deepspeed --num_gpus 4", 4, ""},
      {"deepspeed --num_gpus 4 --hostfile hosts", {}, "deepspeed has no --num_nodes"},
      {"export WORLD_SIZE=18\npython", 18, ""},
      {"python", {}, ""}};
  for (const auto& [launcher, ranks, unknown] : launchers) {
    const ArgumentList list = arguments_in(
        fmt::format("#!/bin/bash\n{} pretrain_gpt.py --num-layers 3\n", launcher), "mine.sh", {});
    EXPECT_EQ(list.ranks, ranks) << launcher;
    EXPECT_EQ(list.ranks_unknown, unknown) << launcher;
  }
}

TEST(ImportValues, RanksArePrinted) {
  const auto ranks = [](const std::vector<std::pair<std::string, int64_t>>& lines) {
    std::string text = "------- arguments -------\n  num_layers ....... 3\n";
    for (const auto& [name, value] : lines) text += fmt::format("  {} ...... {}\n", name, value);
    return arguments_in(text + "------- end of arguments -------\n", "mine.log", {}).ranks;
  };
  EXPECT_EQ(ranks({{"world_size", 6144}, {"data_parallel_size", 5}}), 6144);
  EXPECT_EQ(ranks({{"data_parallel_size", 7},
                   {"tensor_model_parallel_size", 2},
                   {"pipeline_model_parallel_size", 3},
                   {"context_parallel_size", 5}}),
            7 * 2 * 3 * 5);
  EXPECT_EQ(ranks({}), std::nullopt);
}

/// A model of torchtitan's (models/llama3): its FFN is 2/3 of 4 hidden sizes, times a multiplier,
/// rounded up to a multiple.
json llama3(const std::string& flavor, int64_t layers, int64_t hidden, int64_t heads,
            double multiplier, int64_t multiple) {
  const auto wide = static_cast<int64_t>(multiplier * static_cast<double>(8 * hidden / 3));
  json fields = with_fields({}, R"({"key_value_heads": 8, "vocabulary_size": 128256,
    "norm": "rms-norm", "mlp": "swiglu", "bias": "none", "positions": "rotary",
    "rotary": {"base": 500000}, "tied_embeddings": false, "dropout": 0, "attention": "fused",
    "program": "torchtitan~pytorch-norms+torchtitan-eager-layers+torchtitan-eager-loss"})");
  fields.update({{"name", "llama3-" + flavor},
                 {"layers", layers},
                 {"hidden_size", hidden},
                 {"attention_heads", heads},
                 {"intermediate_size", (wide + multiple - 1) / multiple * multiple}});
  return fields;
}
std::string of_llama3(const std::string& flavor, const std::string& sections = "") {
  return "[model]\nname = \"llama3\"\nflavor = \"" + flavor + "\"\n" + sections;
}

/// torchtitan's job_config.py: what a job has that does not say, and one that says everything.
TEST(ImportValues, OfTorchtitan) {
  const json large = llama3("405B", 126, 16384, 128, 1.2, 4096);
  for (const json& model :
       {llama3("8B", 32, 4096, 32, 1.3, 1024), llama3("70B", 80, 8192, 64, 1.3, 4096), large}) {
    json all = with_fields(model, R"({"sequence_length": 2048, "type": "bf16", "clip": 1,
      "microbatch_size": 8, "microbatches": 1, "weight_decay": 0.1, "optimizer": "adamw",
      "data_parallel_size": 1, "shard": "weights", "recompute": "full"})");
    all["recompute_layers"] = model["layers"].get<int64_t>() / 2;  // every second
    expect_reads("torchtitan", of_llama3(model["name"].get<std::string>().substr(7)), {}, all);
  }
  const std::string shards = "data_parallel_shard_degree = 7\n";
  const std::string run =
      "[training]\nseq_len = 24576\nlocal_batch_size = 12\nglobal_batch_size = 4620\n"
      "max_norm = 0.7\nmixed_precision_param = \"bfloat16\"\n"
      "mixed_precision_reduce = \"bfloat16\"\nseed = 77\n[optimizer]\nname = \"Adam\"\nlr = 0.003\n"
      "weight_decay = 0.02\n[activation_checkpoint]\nmode = \"selective\"\n"
      "selective_ac_option = \"5\"\n[parallelism]\npipeline_parallel_degree = 4\n"
      "tensor_parallel_degree = 2\ncontext_parallel_degree = 3\n"
      "data_parallel_replicate_degree = 5\npipeline_parallel_microbatch_size = 4\n";
  const json fields = with_fields(large, R"({"sequence_length": 24576, "microbatch_size": 4,
    "microbatches": 33,  // 12 / 4 parts of 4620 / (12 x 5 x 7) batches
    "clip": 0.7, "type": "bf16", "narrow_reduction": true, "seed": 77, "optimizer": "adam",
    "learning_rate": 0.003, "weight_decay": 0.02, "pipeline_parallel_size": 4,
    "tensor_parallel_size": 2, "sequence_parallel": true, "context_parallel_size": 3,
    "context": "zigzag", "data_parallel_size": 35, "shard": "weights", "shard_size": 21,
    "schedule": "1f1b", "stage_layers": "31+2*32+31",  // 126 and the embedding and the output
    "recompute": "full", "recompute_layers": 6,  // of 126 / 4 layers every fifth
    "program": "torchtitan~pytorch-norms+torchtitan-eager-layers+torchtitan-eager-loss~outer-weights-stay)"
                                         R"(~last-layer-weights-stay"})");
  const Notes notes = {
      "mapped: training.global_batch_size = 4620 -> 11 times 12 sequences a replica",
      "mapped: activation_checkpoint.mode = \"selective\", "
      "activation_checkpoint.selective_ac_option = \"5\" -> recompute_layers=6: every 5th of 31 "
      "layers of a stage; frugal's are the first ones, so its peak lacks up to one layer's "
      "activations"};
  for (const auto& ranks : {std::optional<int64_t>(), std::optional<int64_t>(4 * 2 * 3 * 5 * 7)})
    expect_reads("torchtitan", of_llama3("405B", run + shards), with_ranks(ranks), fields, notes);
  // 1680 ranks leave 14 shards, and a batch of 13 times 12 on each replica.
  expect_reads(
      "torchtitan", of_llama3("405B", run),
      with_ranks(4 * 2 * 3 * 5 * 14,
                 {{"sequence_length", 4096}, {"microbatch_size", 6}, {"recompute", "none"}},
                 13 * 12 * 5 * 14),
      with_fields(fields, R"({"sequence_length": 4096, "microbatch_size": 6,
    "microbatches": 26, "data_parallel_size": 70, "shard_size": 42, "recompute": "none",
    "recompute_layers": null})"));
}

TEST(ImportValues, OfTorchtitansSchedules) {
  for (const auto& [theirs, ours, chunks] : {std::tuple{"1F1B", "1f1b", 1},
                                             {"GPipe", "gpipe", 1},
                                             {"Interleaved1F1B", "interleaved", 2},
                                             {"InterleavedZeroBubble", "interleaved-zb", 2},
                                             {"ZBVZeroBubble", "zb-v", 2},
                                             {"DualPipeV", "dualpipe-v", 2}}) {
    const json given =
        import_configuration(
            "torchtitan",
            of_llama3("8B", fmt::format("[parallelism]\npipeline_parallel_degree = 2\n"
                                        "pipeline_parallel_schedule = \"{}\"\n",
                                        theirs)),
            "mine", {})
            .given;
    EXPECT_EQ(given.at("schedule"), ours);
    EXPECT_EQ(given.value("chunks", 1), chunks) << theirs;
    EXPECT_EQ(given.at("microbatch_size"), 1) << "of a pipeline, by default";
    EXPECT_EQ(given.at("microbatches"), 8);
  }
  // A microbatch that is given is the batch of a replica where there is one stage.
  for (const auto& [stages, microbatches] : {std::pair{1, 1}, {2, 3}}) {
    const std::string job = fmt::format(
        "[training]\nlocal_batch_size = 12\n[parallelism]\npipeline_parallel_degree = {}\n",
        stages);
    const json given = import_configuration("torchtitan", of_llama3("8B", job), "mine",
                                            with_ranks({}, {{"microbatch_size", 4}}))
                           .given;
    EXPECT_EQ(given.at("microbatches"), microbatches);
  }
}

/// DeepSpeed's runtime/config.py: train_batch_size = micro x steps x data-parallel size.
TEST(ImportValues, OfDeepSpeed) {
  const auto expect = [](const char* config, ImportOptions options, const char* others) {
    options.given["model"] = "22B";
    json fields = with_fields({}, R"({"type": "f32", "optimizer": "adamw", "clip": 1,
      "data_parallel_size": 1, "microbatch_size": 1, "microbatches": 1})");
    fields.update(options.given);
    expect_reads("deepspeed", config, options, with_fields(fields, others));
  };
  const char* const batch = R"({"data_parallel_size": 7, "microbatch_size": 3, "microbatches": 5})";
  const char* const all =
      R"({"train_batch_size": 105, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 5})";
  expect("{}", {}, "{}");
  expect(all, {}, batch);
  expect(all, with_ranks(7, json::object(), 3 * 7 * 11),
         R"({"data_parallel_size": 7, "microbatch_size": 3, "microbatches": 11})");
  expect(R"({"train_batch_size": 105, "train_micro_batch_size_per_gpu": 3})", with_ranks(7), batch);
  expect(R"({"train_batch_size": 105, "gradient_accumulation_steps": 5})", with_ranks(7), batch);
  expect(R"({"train_batch_size": 105})", with_ranks(7),
         R"({"data_parallel_size": 7, "microbatch_size": 15, "microbatches": 1})");
  expect(R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 5})",
         with_ranks(2 * 3 * 11 * 7, {{"tensor_parallel_size", 2},
                                     {"pipeline_parallel_size", 3},
                                     {"context_parallel_size", 11}}),
         batch);
  expect(R"({"bf16": {"enabled": true}, "gradient_clipping": 0.7, "optimizer": {"type": "SGD",
    "params": {"lr": 0.003, "weight_decay": 0.02, "momentum": 0.8}}, "zero_optimization":
    {"stage": 2, "mics_shard_size": 3, "offload_optimizer": {"device": "cpu"}}})",
         with_ranks(6), R"({"type": "bf16", "narrow_reduction": true, "clip": 0.7,
    "optimizer": "momentum", "learning_rate": 0.003, "weight_decay": 0.02, "momentum": 0.8,
    "data_parallel_size": 6, "shard": "gradients", "shard_size": 3, "offload_optimizer": true})");
}

}  // namespace
}  // namespace frugal::harness
