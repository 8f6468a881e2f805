#include "engine/model/head/head_parts.h"

#include "engine/model/embedding.h"
#include "engine/model/head/token_statistics.h"

namespace frugal::engine {

HeadParts::HeadParts(const Pass& pass, const Parameter& table, std::optional<float> scale)
    : pass_(pass), table_(table), scale_(scale), tiles_(pass.rank.config.head_tiles) {}

MiniSequence HeadParts::tile(int64_t i) const {
  return balanced_part(table_.view().shape[0], tiles_, i);
}

int64_t HeadParts::first(int64_t i) const { return first_token(pass_.rank) + tile(i).begin; }

Tensor HeadParts::logits(const Part& part, int64_t i) const {
  const ModelConfig& m = pass_.rank.config.model;
  const bool narrow = pass_.rank.config.program.head.narrow_part_product;
  const DType type = narrow ? pass_.rank.config.type : logits_type(pass_.rank.config);
  Tensor logits = pass_.allocate(type, {part.x.rows(), tile(i).count});
  pass_.run(Gemm{
      .a = part.x, .b = tile(i).of(table_.view()), .c = logits, .bias = {}, .transpose_b = true});
  if (m.logit_softcap > 0) pass_.run(SoftCap{logits, logits, static_cast<float>(m.logit_softcap)});
  return pass_.converted(logits, logits_type(pass_.rank.config));
}

/// Logits, after whoever looks at them has seen them.
Tensor HeadParts::new_logits(const Part& part, int64_t i) const {
  Tensor made = logits(part, i);
  if (pass_.on_logits != nullptr) (*pass_.on_logits)(pass_, made, part.first_row, first(i));
  return made;
}

/// Statistics of all parts of the vocabulary, one behind the other: [t · tiles, rows, 3]. `last`
/// are the logits of the last part.
Tensor HeadParts::statistics(const Part& part, Tensor& last) const {
  const int64_t rows = part.x.rows();
  const DType wide = accumulation_type(pass_.rank.config.type);
  const Tensor local = pass_.allocate(wide, {tiles_, rows, 3}, Kind::statistics);
  for (int64_t i = 0; i < tiles_; ++i) {
    last.release();
    last = new_logits(part, i);
    pass_.run(CrossEntropyStatistics{last, part.labels,
                                     local.view().sliced(0, i, 1).reshaped({rows, 3}), first(i)});
  }
  return gathered(pass_, local);
}

/// dx = or += dlogits · W and dW += dlogitsᵀ · x of a part of the vocabulary.
void HeadParts::add_gradients(const Part& part, int64_t i, const View& dlogits, const View& dx,
                              const GradientSum& dtable) const {
  pass_.run(
      Gemm{.a = dlogits, .b = tile(i).of(table_.view()), .c = dx, .bias = {}, .accumulate = i > 0});
  pass_.run(Gemm{.a = dlogits,
                 .b = part.x,
                 .c = tile(i).of(dtable.view),
                 .bias = {},
                 .transpose_a = true,
                 .accumulate = dtable.accumulate});
}

void HeadParts::compute(const Part& part, const GradientSum& dtable) const {
  Tensor logits_of_tile, all;
  if (in_one_pass(pass_.rank, scale_))
    logits_of_tile = new_logits(part, 0);
  else
    all = statistics(part, logits_of_tile);
  const DType type = pass_.rank.config.type;
  // A sum over parts of the vocabulary is made in accumulation type.
  const bool summed = scale_ && tiles_ > 1 && type != accumulation_type(type);
  const Tensor wide = summed ? pass_.allocate(accumulation_type(type), part.dx.shape) : Tensor();
  const View dx = summed ? wide.view() : part.dx;
  const int64_t needed = scale_ ? tiles_ : 1;  // any part of the vocabulary gives the losses
  for (int64_t i = 0; i < needed; ++i) {
    if (tiles_ > 1 && scale_) {
      logits_of_tile.release();
      logits_of_tile = logits(part, i);
    }
    Extras extras;
    pass_.event(ModelEvent::part_logits_made, logits_of_tile, extras);
    // The gradient takes the place of the logits where it has their type.
    const Tensor dlogits = !scale_                         ? Tensor()
                           : logits_of_tile.type() == type ? logits_of_tile
                                                           : pass_.allocate(logits_of_tile.shape());
    pass_.run(CrossEntropy{.logits = logits_of_tile,
                           .labels = part.labels,
                           .statistics = all,
                           .loss = part.losses,
                           .gradient = dlogits,
                           .first = first(scale_ ? i : tiles_ - 1),
                           .gradient_scale = scale_.value_or(1),
                           .softcap = static_cast<float>(pass_.rank.config.model.logit_softcap)});
    logits_of_tile.release();
    if (scale_) add_gradients(part, i, dlogits, dx, dtable);
  }
  if (summed) pass_.run(Convert{wide, part.dx});
}

HeadParts::Result HeadParts::run(const Tensor& x, const Tensor& labels) const {
  const DType wide = accumulation_type(pass_.rank.config.type);
  const int64_t tokens = x.shape()[0], b = x.shape()[1];
  const int64_t parts = pass_.rank.config.head_mini_sequences();
  Result result{pass_.allocate(wide, {tokens * b}, Kind::statistics), {}, {}};
  const bool separate = pass_.rank.config.program.head.separate_part_gradients;
  Tensor dtable;
  GradientSum sum;
  if (scale_) {
    if (!separate) result.dinput = pass_.allocate(x.shape());
    sum = table_.product_sum(pass_);
    // So that a sum over parts of the sequence is rounded once. It begins with what microbatches
    // before this one have added.
    const bool narrow = pass_.rank.config.program.head.narrow_part_sums;
    if (parts > 1 && sum.view.type != wide && !narrow) {
      dtable = pass_.allocate(wide, sum.view.shape);
      if (sum.accumulate) pass_.run(Convert{sum.view, dtable});
      sum.view = dtable;
    }
  }
  for (int64_t i = 0; i < parts; ++i) {
    const MiniSequence rows = mini_sequence(tokens, parts, i);
    Tensor dinput = rows.of(result.dinput);
    if (scale_ && separate) {
      dinput = pass_.allocate(rows.of(x).shape());
      result.dinputs.push_back(dinput);
    }
    compute({.x = rows.of(x).view().matrix(),
             .labels = rows.of(labels).view().flat(),
             .losses = result.losses.view().sliced(0, rows.begin * b, rows.count * b),
             .dx = scale_ ? dinput.view().matrix() : View(),
             .first_row = rows.begin * b},
            sum);
    sum.accumulate = true;
  }
  if (!dtable.empty()) pass_.run(Convert{dtable, table_.grad(pass_)});
  return result;
}

}  // namespace frugal::engine
