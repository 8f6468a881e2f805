#include "engine/train/module_run.h"

#include <algorithm>

#include "engine/data/single_batch.h"
#include "engine/model/dropout.h"
#include "engine/model/embedding.h"
#include "engine/model/head/output_layer.h"
#include "engine/model/layer.h"
#include "engine/model/parallel.h"

namespace frugal::engine {

/// A module on one rank, with what it is run on.
class ModuleSubject {
 public:
  ModuleSubject() = default;
  ModuleSubject(const ModuleSubject&) = delete;
  ModuleSubject& operator=(const ModuleSubject&) = delete;
  virtual ~ModuleSubject() = default;
  /// Forward, what is to be done between the passes, and backward.
  virtual void run(const Pass& pass, const std::function<void()>& between) = 0;
  virtual ParameterList parameters() = 0;
  /// Bytes of the input, and of what else a run is given.
  virtual int64_t input() const = 0;
  virtual int64_t beside_input() const = 0;
};

namespace {

/// Makes the ranks meet, and tells when they did.
double meet(Rank& rank) {
  rank.device.synchronize();
  rank.tensor_group.barrier();
  rank.groups.context.barrier();
  return rank.device.now();
}

Tensor random_hidden(Rank& rank, uint32_t site) {
  const RunConfig& c = rank.config;
  Tensor x = rank.allocate({parallel::local_sequence(rank), c.micro_batch, c.model.hidden});
  for (const Positions::Piece& piece : parallel::local_positions(rank))
    rank.run(RandomNormal{piece.of(x),
                          1,
                          {c.seed, site, randomness::initial_draw},
                          {.offset = piece.first * c.micro_batch * c.model.hidden}});
  return x;
}

/// The rank's part of a random microbatch's.
Tensor random_labels(Rank& rank) {
  if (!rank.device.backed()) return local_integers(rank, {});
  return local_integers(rank, random_batch(rank.config, 0).front().labels);
}

Tensor forward(const TransformerLayer& layer, const Pass& pass, const Tensor& x,
               TransformerLayer::Saved& saved) {
  return layer.forward(pass, x, saved);
}
Tensor forward(const Mlp& mlp, const Pass& pass, const Tensor& x, Mlp::Saved& saved) {
  return mlp.forward(pass, x, {}, saved);
}
void backward(TransformerLayer& layer, const Pass& pass, const Tensor&, const Tensor& dy,
              TransformerLayer::Saved saved) {
  layer.backward(pass, dy, std::move(saved));
}
void backward(Mlp& mlp, const Pass& pass, const Tensor& x, const Tensor& dy, Mlp::Saved saved) {
  mlp.backward(pass, dy, std::move(saved), [&] { return x; });
}

/// [s/t, b, h] → the same.
template <class Part>
class Hidden final : public ModuleSubject {
 public:
  template <class... Arguments>
  explicit Hidden(Rank& rank, const Arguments&... arguments)
      : part_(rank, arguments...), x_(random_hidden(rank, 0)), dy_(random_hidden(rank, 1)) {}

  void run(const Pass& pass, const std::function<void()>& between) override {
    typename Part::Saved saved;
    forward(part_, pass, x_, saved);
    between();
    backward(part_, pass, x_, dy_, std::move(saved));
  }
  ParameterList parameters() override { return part_.parameters(); }
  int64_t input() const override { return x_.view().bytes(); }
  int64_t beside_input() const override { return dy_.view().bytes(); }

 private:
  Part part_;
  Tensor x_, dy_;
};

/// [s/t, b, h] → the mean loss.
class Output final : public ModuleSubject {
 public:
  explicit Output(Rank& rank)
      : table_(make_token_table(rank, output_table)),
        x_(random_hidden(rank, 0)),
        labels_(random_labels(rank)),
        scale_(1 / static_cast<float>(rank.config.model.sequence * rank.config.micro_batch)) {}

  void run(const Pass& pass, const std::function<void()>& between) override {
    output_layer::Saved saved;
    output_layer::forward(pass, table_, x_, {labels_, scale_}, saved);
    between();
    output_layer::backward(pass, table_, scale_, std::move(saved));
  }
  ParameterList parameters() override { return {&table_}; }
  int64_t input() const override { return x_.view().bytes(); }
  int64_t beside_input() const override { return labels_.view().bytes(); }

 private:
  Parameter table_;
  Tensor x_, labels_;
  float scale_;
};

std::unique_ptr<ModuleSubject> make_subject(Rank& rank, Module module) {
  switch (module) {
    case Module::layer:
      return std::make_unique<Hidden<TransformerLayer>>(rank, 0);
    case Module::mlp:
      return std::make_unique<Hidden<Mlp>>(rank, "mlp", 0);
    case Module::output_layer:
      break;
  }
  return std::make_unique<Output>(rank);
}

}  // namespace

ModuleRun::ModuleRun(Cluster& cluster, Module module)
    : cluster_(cluster), subjects_(static_cast<size_t>(cluster.local_ranks())) {
  cluster_.run([&](Rank& rank) {
    auto& subject = subjects_[static_cast<size_t>(rank.index)];
    subject = make_subject(rank, module);
    // Takes gradients, which a pass before would have left behind.
    for (const Parameter* p : subject->parameters()) p->grad(rank);
  });
}

ModuleRun::~ModuleRun() = default;

StepWork ModuleRun::work_since(const DeviceWork& before, const BytesPerKind& held,
                               const Rank& rank) {
  ModuleSubject& subject = of(rank);
  const auto kept = [&](Kind kind) { return held[static_cast<size_t>(kind)]; };
  // The input is kept, but nobody here writes it.
  const int64_t written = kept(Kind::activation) + kept(Kind::statistics) - subject.input();
  StepWork work{.stage = 0,
                .done = rank.device.work(),
                .least = least_bytes(
                    rank, subject.parameters(),
                    {.steps = 0,
                     .kept = static_cast<double>(std::max<int64_t>(written, 0)),
                     .inputs = static_cast<double>(subject.input() + subject.beside_input())})};
  work.done.add(before, -1);
  return work;
}

ModuleMemory ModuleRun::memory() {
  ModuleMemory result;
  cluster_.run([&](Rank& rank) {
    rank.ledger.reset_peaks();
    const double start = rank.flops.total();
    const DeviceWork before = rank.device.work();
    BytesPerKind held{};
    HeldPerPart kept{};
    double middle = 0;
    of(rank).run(Pass(rank), [&] {
      held = rank.ledger.current_per_kind();
      kept = rank.ledger.held_per_part();
      middle = rank.flops.total();
    });
    if (rank.first_of_stage())
      result = {.after_forward = held,
                .kept = kept,
                .peak = rank.ledger.peak_per_kind(),
                .at_peak = rank.ledger.at_peak(),
                .peak_total = rank.ledger.peak(),
                .forward_flops = middle - start,
                .backward_flops = rank.flops.total() - middle,
                .work = work_since(before, held, rank)};
  });
  return result;
}

ModuleTime ModuleRun::time() {
  ModuleTime result;
  cluster_.run([&](Rank& rank) {
    const double start = meet(rank);
    double middle = 0;
    of(rank).run(Pass(rank), [&] { middle = meet(rank); });
    const double end = meet(rank);
    if (rank.first_of_stage()) result = {middle - start, end - middle};
  });
  return result;
}

}  // namespace frugal::engine
