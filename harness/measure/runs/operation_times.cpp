#include "harness/measure/runs/operation_times.h"

#include "engine/train/trainer.h"

namespace frugal::harness {
namespace {

/// Sequences of `sequence` tokens, `batch` of them.
struct ModelSize {
  int64_t hidden, heads, sequence, batch, vocabulary;
};

/// From small to large, so that every operation is seen in the caches and out of them; with few
/// tokens and with many, narrow heads and wide ones, so that of m, n and k of a product each is the
/// smallest somewhere.
constexpr ModelSize model_sizes[] = {
    {64, 2, 32, 1, 128},       {128, 4, 64, 1, 512},
    {128, 16, 256, 2, 256},    {256, 4, 64, 2, 512},
    {256, 8, 128, 4, 1024},    {256, 2, 512, 4, 256},
    {512, 8, 256, 2, 2048},    {512, 4, 128, 8, 8192},
    {512, 32, 512, 1, 512},    {1024, 16, 64, 1, 256},
    {1024, 16, 512, 1, 2048},  {1024, 64, 128, 8, 4096},
    {1536, 12, 128, 1, 12288}, {OperationTimes::largest_hidden, 24, 1024, 1, 1024}};

RunConfig gpt(const ModelSize& size) {
  RunConfig run;
  run.model = {.name = "timed",
               .layers = 1,
               .hidden = size.hidden,
               .heads = size.heads,
               .sequence = size.sequence,
               .vocabulary = size.vocabulary,
               .dropout = 0.1};
  run.micro_batch = size.batch;
  return run;
}

RunConfig llama(const ModelSize& size) {
  RunConfig run = gpt(size);
  ModelConfig& model = run.model;
  model.dropout = 0;
  model.intermediate = model.hidden * 5 / 2;
  model.norm = NormKind::rms;
  model.mlp = MlpKind::swiglu;
  model.bias = BiasKind::none;
  model.positions = PositionKind::rotary;
  model.tied = false;
  run.attention = AttentionKind::fused;
  return run;
}

}  // namespace

struct OperationTimes::Subject {
  Subject(const RunConfig& run, int threads, const Device::OnOperation& seen)
      : cluster(make_cpu_cluster(run, threads)),
        trainer(*cluster, run, {}),
        batch(random_batch(run, 0)) {
    cluster->rank(0).device.time_operations(seen);
  }

  std::unique_ptr<Cluster> cluster;
  Trainer trainer;
  Batch batch;
};

OperationTimes::OperationTimes(int threads, int64_t largest) {
  const auto seen = [this](const Operation& operation, double seconds) {
    if (!keep_) return;
    const Work work = work_of(operation);
    samples_[{form_of(operation), work.bytes, work.product}].push_back(seconds);
  };
  for (const ModelSize& size : model_sizes) {
    if (size.hidden > largest) continue;
    for (const RunConfig& run : {gpt(size), llama(size)})
      subjects_.push_back(std::make_unique<Subject>(run, threads, seen));
  }
}

OperationTimes::~OperationTimes() = default;

void OperationTimes::round(bool keep) {
  keep_ = keep;
  for (const auto& subject : subjects_) subject->trainer.step(subject->batch);
}

}  // namespace frugal::harness
