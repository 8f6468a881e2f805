#include "harness/import/megatron_table.h"

namespace frugal::harness {

namespace {

const std::vector<KnownParts> megatron_parts_with_values = {
    {{"--rotary-percent 1.0", "--rotary-percent 1", "--empty-unused-memory-level 0",
      "--no-check-for-nan-in-loss-and-grad", "--spec local", "--rerun-mode disabled",
      "--rerun-mode validate_results", "--timing-log-level 0", "--no-barrier-with-level-1-timing"},
     "what it says is what frugal does"},
    {{"--pipeline-model-parallel-comm-backend nccl", "--distributed-backend nccl"},
     "how processes find each other"},
    {{"--biencoder-projection-dim 0", "--cuda-graph-impl none", "--glu-linear-offset 0.0",
      "--head-lr-mult 1.0", "--indexer-batch-size 128", "--indexer-log-interval 1000",
      "--mask-factor 1.0", "--mask-type random", "--mlp-chunks-for-training 1",
      "--query-in-block-prob 0.1", "--softmax-type vanilla",
      // Models of pictures.
      "--classes-fraction 1.0", "--data-per-class-fraction 1.0", "--dino-bottleneck-size 256",
      "--dino-freeze-last-layer 1", "--dino-head-hidden-size 2048", "--dino-local-crops-number 10",
      "--dino-local-img-size 96", "--dino-teacher-temp 0.07", "--dino-warmup-teacher-temp 0.04",
      "--dino-warmup-teacher-temp-epochs 30", "--img-h 224", "--img-w 224", "--iter-per-epoch 1250",
      "--num-channels 3", "--num-classes 1000", "--patch-dim 16", "--swin-backbone-type tiny",
      "--vision-backbone-type vit", "--vision-pretraining-type classify"},
     "it is Megatron-LM's default"}};

}  // namespace

const std::vector<KnownParts>& megatron_values() { return megatron_parts_with_values; }

}  // namespace frugal::harness
