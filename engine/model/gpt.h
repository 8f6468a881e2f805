#pragma once
#include <optional>

#include "engine/model/embedding.h"
#include "engine/model/head/output_layer.h"
#include "engine/model/layer.h"
#include "engine/model/part.h"

namespace frugal::engine {

/// Final norm, output layer, and cross-entropy.
class OutputHead {
 public:
  struct Saved {
    Norm::Saved norm;
    output_layer::Saved layer;
  };

  explicit OutputHead(Rank& rank) : norm_(rank, "final_norm") {}

  /// Computes what output_layer::forward() does, from before the norm.
  Tensor forward(const Pass& pass, const Parameter& table, const Tensor& x,
                 const output_layer::Target& target, Saved& saved) const {
    return output_layer::forward(pass, table, norm_.forward(pass, x, saved.norm), target,
                                 saved.layer);
  }
  /// The gradient of x for a loss that is `scale` · Σ of the tokens' losses. The output layer
  /// completes the gradients of `completed`: the table's, where nobody else has it.
  Tensor backward(const Pass& pass, const Parameter& table, const ParameterList& completed,
                  float scale, Saved saved) const {
    Tensor dnormed =
        output_layer::backward(pass, table, scale, std::move(saved.layer));  // [s/t, b, h]
    step_alone(pass, completed);
    return norm_.backward(pass, std::move(dnormed), {}, std::move(saved.norm));
  }

  ParameterList parameters() { return norm_.parameters(); }

 private:
  Norm norm_;
};

/// A GPT on one rank, or another model of embedding, transformer layers and output head; or the
/// part of it that a stage of a pipeline has. The head's table is the embedding's where the model
/// ties them, and the last stage has a copy of it; only the weight-stashing schedule has a table of
/// its own there, which changes the model.
class Gpt {
 public:
  struct Input {
    Tensor hidden;                // [s/t, b, h], of the part before; empty in the first
    Tensor tokens;                // [s, b] i32, for the first part
    output_layer::Target target;  // for the last; without scale no part has a backward pass
    /// True if the part's next pass is the backward pass.
    bool turns = false;
  };
  /// Tensors for the backward pass: the input alone where the whole part is recomputed.
  struct Saved {
    Input input;
    InputEmbedding::Saved embedding;
    std::vector<TransformerLayer::Saved> layers;
    OutputHead::Saved head;
    Extras extras;
  };

  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;
  explicit Gpt(Rank& rank) : Gpt(rank, ModelPart::whole(rank.config)) {}
  /// `begins` is the part with the embedding, where the same stage has it and this is another one.
  Gpt(Rank& rank, const ModelPart& part, Gpt* begins = nullptr);

  /// [s/t, b, h], or in the last part the loss of each token [s·b].
  Tensor forward(const Pass& pass, const Input& input, Saved& saved) const;
  /// Adds the gradients to the parameters' and returns that of the input; empty in the first part.
  /// dy is the output's gradient; the last part's is for `scale` · Σ of the tokens' losses.
  Tensor backward(const Pass& pass, Tensor dy, float scale, Saved saved);

  const ModelPart& part() const { return part_; }
  ParameterList parameters();
  /// Includes a table of another part that this one adds gradients to.
  ParameterList trained();
  /// Parameters by module, in the order in which a backward pass has added to all of one. A table
  /// of the embedding and the output head is in both.
  std::vector<ParameterList> completed();

 private:
  const Parameter& table() const { return *table_; }
  Tensor compute(const Pass& pass, const Input& input, Saved& saved) const;
  /// Layers that are computed again together, in the order of the forward pass; a layer that is
  /// not, alone.
  struct LayerGroup {
    size_t first, last;
  };
  LayerGroup group_of(const Pass& pass, size_t layer) const;
  /// Pass as this layer of the part is recomputed in it.
  static Pass of_layer(const Pass& pass, size_t layer);
  /// Computes the layers of a group but the last again, from the first one's input; they keep all
  /// that they need, and the last one its input.
  void recompute(const Pass& pass, const LayerGroup& group,
                 std::vector<TransformerLayer::Saved>& saved, Extras& extras) const;
  /// Announces an event about the table where embedding and output head both add to its gradient.
  void announce_tied_table(const Pass& pass, ModelEvent event, Extras& extras) const;
  /// True if divided weights outside the layers are whole together (WeightChoices::outer_stay).
  bool outer_together(const RunConfig& config) const;
  /// The output head's, with the table.
  ParameterList needed_by_head();
  /// Parameters of module `i` of the part, in the order of the forward pass: embedding, layers,
  /// head; none where there is no such module.
  const ParameterList& module(size_t i) const;
  size_t module_of_layer(size_t layer) const { return layer + (embedding_ ? 1 : 0); }
  ParameterList head_parameters();
  /// The output layer's, where the embedding has another one.
  ParameterList own_table();
  /// Tells who steps or sums in backward that these parameters' gradients are complete.
  static void complete(const Pass& pass, const ParameterList& parameters);

  ModelPart part_;
  std::optional<InputEmbedding> embedding_;
  std::optional<Parameter> output_table_;  // of a last part whose stage has not the embedding's
  Parameter* table_ = nullptr;             // that the head uses
  std::vector<TransformerLayer> layers_;
  std::optional<OutputHead> head_;
  std::vector<ParameterList> modules_;
};

/// Parts of the model that a rank has: one for each chunk of its stage.
class StageModel {
 public:
  explicit StageModel(Rank& rank)
      : StageModel(rank, ModelPart::chunks_of(rank.config, rank.stage())) {}
  StageModel(Rank& rank, const std::vector<ModelPart>& chunks) : rank_(rank) {
    for (const ModelPart& chunk : chunks)
      parts_.push_back(
          std::make_unique<Gpt>(rank, chunk, parts_.empty() ? nullptr : parts_.front().get()));
    rank_.event(ModelEvent::model_made, extras_);
    if (chunks.back().last) rank_.event(ModelEvent::head_made, extras_);
  }

  ~StageModel() { rank_.event(ModelEvent::model_goes, extras_); }
  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  Gpt& part(int chunk) { return *parts_.at(static_cast<size_t>(chunk)); }
  ParameterList parameters() {
    ParameterList all;
    for (const auto& part : parts_) all = join({all, part->parameters()});
    return all;
  }
  /// Lists, for each chunk, what its backward passes complete (Gpt::completed()).
  std::vector<std::vector<ParameterList>> completed() {
    std::vector<std::vector<ParameterList>> all;
    for (const auto& part : parts_) all.push_back(part->completed());
    return all;
  }

 private:
  const RankAt rank_;
  std::vector<std::unique_ptr<Gpt>> parts_;
  Extras extras_;  // as long as the model is there
};

}  // namespace frugal::engine
