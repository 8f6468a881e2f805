#pragma once
#include <map>
#include <memory>

#include "kernels/cpu/device.h"
#include "tests/engine/support.h"

namespace frugal::testing {
using namespace engine;

/// The oracle of pipelines: the same parts of a model one after another on one rank, and the
/// weights that each update is computed with chosen by a formula. There is no schedule, no message
/// and no version kept on the device: weights are copied to and from the host.
class SerialPipeline {
 public:
  /// The version with which a stage computes batch t.
  using VersionOf = std::function<int(int stage, int batch)>;

  SerialPipeline(const RunConfig& config, const TrainConfig& train, VersionOf version)
      : config_(config),
        train_(train),
        version_(std::move(version)),
        rank_(0, device_, alone_in_all(alone_), config, activity_) {
    for (int stage = 0; stage < config.pipeline_parallel; ++stage) {
      parts_.push_back(std::make_unique<Gpt>(rank_, ModelPart::of(config, stage, 0)));
      history_.push_back({weights_of(stage)});
      OptimizerOptions options = train.optimizer;
      options.prediction = 0;
      optimizers_.push_back(
          std::make_unique<Optimizer>(rank_, parts_.back()->parameters(), options));
      optimizers_.back()->clear_gradients();
    }
  }

  /// W(t + 1) = W(t) − ν · update of ∇f(W(version)); returns Σ of the tokens' losses.
  double step(const Batch& batch) {
    const int t = static_cast<int>(history_.front().size()) - 1;
    for (size_t s = 0; s < parts_.size(); ++s)
      write(s, read_by_passes(s, static_cast<size_t>(version_(static_cast<int>(s), t))));
    const double loss = compute(batch, t);
    if (parts_.size() > 1 && config_.schedule != ScheduleKind::pipedream) tie();
    OptimizerOptions options = train_.optimizer;
    options.learning_rate = train_.learning_rate(t);
    options.prediction = 0;  // read_by_passes() does it
    for (size_t s = 0; s < parts_.size(); ++s) {
      write(s, history_[s].back());
      optimizers_[s]->update().apply(options, {}, {});
      optimizers_[s]->clear_gradients();
      history_[s].push_back(weights_of(static_cast<int>(s)));
    }
    return loss;
  }

  /// Weights by the parameters' names.
  std::map<std::string, std::vector<double>> weights() const {
    std::map<std::string, std::vector<double>> all;
    for (size_t s = 0; s < parts_.size(); ++s)
      for (const Parameter* p : parts_[s]->parameters())
        if (!p->is_copy) all[p->name] = history_[s].back().at(p->name);
    return all;
  }

 private:
  using Values = std::map<std::string, std::vector<double>>;

  double compute(const Batch& batch, int t) {
    const Tensor total = rank_.allocate(DType::f64, {1});
    rank_.run(Fill{total, 0});
    const auto counted = static_cast<double>(std::max<int64_t>(counted_labels(batch), 1));
    const auto scale = static_cast<float>(1 / counted);
    for (size_t k = 0; k < batch.size(); ++k) {
      Pass pass(rank_);
      pass.draw = static_cast<uint32_t>(static_cast<size_t>(t) * batch.size() + k);
      std::vector<Gpt::Saved> saved(parts_.size());
      Gpt::Input input{{}, tokens(batch[k].tokens), {tokens(batch[k].labels), scale}};
      for (size_t s = 0; s < parts_.size(); ++s) {
        const Tensor y = parts_[s]->forward(pass, input, saved[s]);
        if (s + 1 == parts_.size()) rank_.run(Sum{y, total});
        input.hidden = y;
      }
      Tensor dy;
      for (size_t s = parts_.size(); s-- > 0;)
        dy = parts_[s]->backward(pass, dy, scale, std::move(saved[s]));
    }
    double loss = 0;
    device_.copy_to_host(&loss, total);
    return loss / counted;
  }

  /// Both tables get the sum of their gradients, added in their own type.
  void tie() {
    const View first = table(*parts_.front()).grad(), last = table(*parts_.back()).grad();
    const auto add = [&]<class T>(T) {
      std::vector<T> a(static_cast<size_t>(first.size())), b(a.size());
      device_.copy_to_host(a.data(), first);
      device_.copy_to_host(b.data(), last);
      for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
      device_.copy_from_host(first, a.data());
      device_.copy_from_host(last, a.data());
    };
    first.type == DType::f64 ? add(double{}) : add(float{});
  }
  static const Parameter& table(Gpt& part) {
    for (const Parameter* p : part.parameters())
      if (p->tied) return *p;
    throw std::logic_error("no tied table");
  }

  /// A version, or what as many further updates like its last as are predicted make of it.
  Values read_by_passes(size_t stage, size_t version) const {
    Values values = history_[stage].at(version);
    if (version == 0 || train_.optimizer.prediction == 0) return values;
    const auto ahead = static_cast<float>(train_.optimizer.prediction);
    for (auto& [name, weights] : values) {
      const std::vector<double>& before = history_[stage].at(version - 1).at(name);
      for (size_t i = 0; i < weights.size(); ++i) {
        const auto weight = static_cast<float>(weights[i]);
        weights[i] = weight + (weight - static_cast<float>(before[i])) * ahead;
      }
    }
    return values;
  }

  Tensor tokens(const std::vector<int32_t>& values) {
    Tensor tensor = rank_.allocate(DType::i32, {config_.model.sequence, config_.micro_batch});
    device_.copy_from_host(tensor, values.data());
    return tensor;
  }
  Values weights_of(int stage) {
    Values values;
    for (const Parameter* p : parts_[static_cast<size_t>(stage)]->parameters()) {
      HostTensor tensor = zero_host_tensor(extents_of(p->serial_shape));
      gather_into(tensor, device_, p->view(), {});
      values[p->name] = tensor.values;
    }
    return values;
  }
  void write(size_t stage, const Values& values) {
    for (const Parameter* p : parts_[stage]->parameters()) {
      HostTensor tensor = zero_host_tensor(extents_of(p->serial_shape));
      tensor.values = values.at(p->name);
      scatter_from(tensor, device_, p->view(), {});
    }
  }

  RunConfig config_;
  TrainConfig train_;
  VersionOf version_;
  CpuDevice device_{1};
  LocalGroup alone_{1};
  Activity activity_;
  Rank rank_;
  std::vector<std::unique_ptr<Gpt>> parts_;
  std::vector<std::vector<Values>> history_;  // of each stage, by version
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
};

}  // namespace frugal::testing
