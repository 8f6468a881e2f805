#include "engine/model/head/output_layer.h"

#include "engine/model/embedding.h"
#include "engine/model/linear.h"
#include "engine/model/mini_sequence.h"

namespace frugal::engine::output_layer {
namespace {

/// DType of logits.
DType logits_type(const RunConfig& config) {
  return config.narrow_logits ? config.type : accumulation_type(config.type);
}

/// True if one operation reads a row of logits and leaves its gradient there: a rank has all of the
/// vocabulary at once, and there will be a backward pass.
bool in_one_pass(const Rank& rank, const std::optional<float>& scale) {
  return scale && rank.config.narrow_logits && rank.tensor_group.size() == 1 &&
         rank.config.head_tiles == 1;
}

/// Every shard's statistics of every token: local [shards, rows, 3] → [t · shards, rows, 3]. One
/// collective, instead of one for the maximum, one for the sum and one for the label's logit.
Tensor gathered(const Pass& pass, const Tensor& local) {
  const int t = pass.rank.tensor_group.size();
  if (t == 1) return local;
  const Shape shape = local.shape();
  Tensor all = pass.allocate(local.type(), {t * shape[0], shape[1], shape[2]}, Kind::statistics);
  Pending gathering = pass.rank.tensor_group.all_gather(local, all);
  pass.wait(gathering);
  return all;
}

bool in_parts(const RunConfig& c) { return c.head_mini_sequences() > 1 || c.head_tiles > 1; }

/// DType in which the product gives logits, of all tokens or of a part.
DType product_type(const RunConfig& config) {
  const HeadChoices& choices = config.program.head;
  const bool narrow = in_parts(config) ? choices.narrow_part_product : choices.narrow_product;
  return narrow ? config.type : logits_type(config);
}

float softcap_of(const Rank& rank) { return static_cast<float>(rank.config.model.logit_softcap); }

Tensor statistics_of(const Pass& pass, const Tensor& logits, const Tensor& labels) {
  const int64_t rows = logits.view().rows();
  const DType wide = accumulation_type(pass.rank.config.type);
  const Tensor local = pass.allocate(wide, {1, rows, 3}, Kind::statistics);
  pass.run(CrossEntropyStatistics{logits.view().matrix(), labels.view().flat(),
                                  local.view().reshaped({rows, 3}), first_token(pass.rank)});
  return gathered(pass, local);
}

/// The output layer and cross-entropy over a part of the sequence and a part of the vocabulary at a
/// time (RunConfig::head_mini_sequences(), head_tiles).
class HeadParts {
 public:
  HeadParts(const Pass& pass, const Parameter& table, const Target& target)
      : pass_(pass), table_(table), target_(target), tiles_(pass.rank.config.head_tiles) {}

  struct Result {
    Tensor losses;  // [s·b] in accumulation type
    Tensor dinput;  // [s, b, h], of the partial sums of this rank's vocabulary; empty without scale
    std::vector<Tensor> dinputs;  // the same of each part, in its place, where a program has them
  };
  /// x [s, b, h]. Adds to the table's gradient.
  Result run(const Tensor& x) const;

 private:
  /// Views of one part of the sequence.
  struct Part {
    View x;       // [rows, h]
    View labels;  // [rows]
    View losses;  // [rows]
    View dx;      // [rows, h], empty without scale
    int64_t first_row;
  };
  void compute(const Part& part, const GradientSum& dtable) const;
  /// Logits of a part of the vocabulary: [rows, tile(i).count].
  Tensor logits(const Part& part, int64_t i) const;
  Tensor new_logits(const Part& part, int64_t i) const;
  Tensor statistics(const Part& part, Tensor& last) const;
  void add_gradients(const Part& part, int64_t i, const View& dlogits, const View& dx,
                     const GradientSum& dtable) const;
  /// Rows of the rank's table that are a part of the vocabulary.
  MiniSequence tile(int64_t i) const { return balanced_part(table_.view().shape[0], tiles_, i); }
  /// First token of it.
  int64_t first(int64_t i) const { return first_token(pass_.rank) + tile(i).begin; }

  const Pass& pass_;
  const Parameter& table_;
  const Target& target_;
  const int64_t tiles_;
};

Tensor HeadParts::logits(const Part& part, int64_t i) const {
  Tensor logits = pass_.allocate(product_type(pass_.rank.config), {part.x.rows(), tile(i).count});
  pass_.run(Gemm{
      .a = part.x, .b = tile(i).of(table_.view()), .c = logits, .bias = {}, .transpose_b = true});
  if (softcap_of(pass_.rank) > 0) pass_.run(SoftCap{logits, logits, softcap_of(pass_.rank)});
  return pass_.converted(logits, logits_type(pass_.rank.config));
}

/// Logits, after whoever looks at them has seen them.
Tensor HeadParts::new_logits(const Part& part, int64_t i) const {
  Tensor made = logits(part, i);
  target_.see(pass_, made, part.first_row, first(i));
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
  const std::optional<float> scale = target_.scale;
  if (in_one_pass(pass_.rank, scale))
    logits_of_tile = new_logits(part, 0);
  else
    all = statistics(part, logits_of_tile);
  const DType type = pass_.rank.config.type;
  // A sum over parts of the vocabulary is made in accumulation type.
  const bool summed = scale && tiles_ > 1 && type != accumulation_type(type);
  const Tensor wide = summed ? pass_.allocate(accumulation_type(type), part.dx.shape) : Tensor();
  const View dx = summed ? wide.view() : part.dx;
  const int64_t needed = scale ? tiles_ : 1;  // any part of the vocabulary gives the losses
  for (int64_t i = 0; i < needed; ++i) {
    if (tiles_ > 1 && scale) {
      logits_of_tile.release();
      logits_of_tile = logits(part, i);
    }
    Extras extras;
    pass_.event(ModelEvent::part_logits_made, logits_of_tile, extras);
    // The gradient takes the place of the logits where it has their type.
    const Tensor dlogits = !scale                          ? Tensor()
                           : logits_of_tile.type() == type ? logits_of_tile
                                                           : pass_.allocate(logits_of_tile.shape());
    pass_.run(CrossEntropy{.logits = logits_of_tile,
                           .labels = part.labels,
                           .statistics = all,
                           .loss = part.losses,
                           .gradient = dlogits,
                           .first = first(scale ? i : tiles_ - 1),
                           .gradient_scale = scale.value_or(1),
                           .softcap = softcap_of(pass_.rank)});
    logits_of_tile.release();
    if (scale) add_gradients(part, i, dlogits, dx, dtable);
    pass_.event(ModelEvent::part_gradient_ends, extras);
  }
  if (summed) pass_.run(Convert{wide, part.dx});
}

HeadParts::Result HeadParts::run(const Tensor& x) const {
  const DType wide = accumulation_type(pass_.rank.config.type);
  const int64_t tokens = x.shape()[0], b = x.shape()[1];
  const int64_t parts = pass_.rank.config.head_mini_sequences();
  Result result{pass_.allocate(wide, {tokens * b}, Kind::statistics), {}, {}};
  const bool separate = pass_.rank.config.program.head.separate_part_gradients;
  Tensor dtable;
  GradientSum sum;
  if (target_.scale) {
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
    if (target_.scale && separate) {
      dinput = pass_.allocate(rows.of(x).shape());
      result.dinputs.push_back(dinput);
    }
    compute({.x = rows.of(x).view().matrix(),
             .labels = rows.of(target_.labels).view().flat(),
             .losses = result.losses.view().sliced(0, rows.begin * b, rows.count * b),
             .dx = target_.scale ? dinput.view().matrix() : View(),
             .first_row = rows.begin * b},
            sum);
    sum.accumulate = true;
  }
  if (!dtable.empty()) pass_.run(Convert{dtable, table_.grad(pass_)});
  return result;
}

/// Computes the logits of all tokens.
void compute_logits(const Pass& pass, const Tensor& x, const Parameter& table, Saved& saved) {
  Extras extras;
  Tensor logits = local_linear(pass, x, table.view(), {}, product_type(pass.rank.config));
  if (softcap_of(pass.rank) > 0) {
    pass.run(SoftCap{logits, logits, softcap_of(pass.rank)});
    pass.event(ModelEvent::logits_capped, logits, saved.extras);
  }
  Tensor product = logits;
  pass.event(ModelEvent::logits_made, logits, extras);
  pass.event(ModelEvent::logits_converted, product, saved.extras);
  pass.event(ModelEvent::logits_returned, logits, saved.extras);
  pass.event(ModelEvent::loss_begins, logits, extras);
  saved.logits = keep(pass, logits);
  pass.event(ModelEvent::logits_kept, extras);
}

}  // namespace

Tensor forward(const Pass& outer, const Parameter& table, const Tensor& x, const Target& target,
               Saved& saved) {
  const Pass pass = outer.in(Part::head);
  const DType wide = accumulation_type(pass.rank.config.type);
  saved.input = keep(pass, x);
  saved.labels = target.labels;
  const Tensor all = parallel::enter(pass, saved.input).wait();
  if (in_parts(pass.rank.config)) {
    HeadParts::Result result = HeadParts(pass, table, target).run(all);
    saved.input.release();
    for (const Tensor& part : result.dinputs) saved.dinputs.push_back(keep(pass, part));
    if (!result.dinput.empty())
      saved.dinput = keep(pass, parallel::leave(pass, result.dinput).wait());
    return result.losses;
  }
  compute_logits(pass, all, table, saved);
  target.see(pass, saved.logits.view().matrix(), 0, first_token(pass.rank));
  const bool at_once = in_one_pass(pass.rank, target.scale);
  if (!at_once) saved.statistics = statistics_of(pass, saved.logits, target.labels);

  Tensor losses = pass.allocate(wide, {saved.logits.view().rows()}, Kind::statistics);
  CrossEntropy loss{.logits = saved.logits.view().matrix(),
                    .labels = target.labels.view().flat(),
                    .statistics = saved.statistics,
                    .loss = losses,
                    .first = first_token(pass.rank)};
  if (at_once) {
    loss.gradient = loss.logits;
    loss.gradient_scale = *target.scale;
    loss.softcap = softcap_of(pass.rank);
  }
  pass.run(loss);
  pass.event(ModelEvent::loss_made, saved.statistics);
  return losses;
}

namespace {

Tensor logits_gradient(const Pass& pass, float scale, Saved& saved) {
  if (in_one_pass(pass.rank, scale)) return saved.logits;
  if (saved.statistics.empty()) saved.statistics = statistics_of(pass, saved.logits, saved.labels);
  Extras extras;
  pass.event(ModelEvent::loss_gradient_begins, saved.logits, extras);
  pass.event(ModelEvent::loss_gradient_converted, saved.logits, extras);
  const Tensor losses = pass.allocate(accumulation_type(pass.rank.config.type),
                                      {saved.logits.view().rows()}, Kind::statistics);
  // The gradient takes the place of the logits where it has their type.
  Tensor dlogits = saved.logits;
  if (dlogits.type() == pass.rank.config.type)
    pass.event(ModelEvent::loss_gradient_placed, dlogits);
  else
    dlogits = pass.allocate(dlogits.shape());
  pass.run(CrossEntropy{.logits = saved.logits.view().matrix(),
                        .labels = saved.labels.view().flat(),
                        .statistics = saved.statistics,
                        .loss = losses,
                        .gradient = dlogits.view().matrix(),
                        .first = first_token(pass.rank),
                        .gradient_scale = scale,
                        .softcap = softcap_of(pass.rank)});
  pass.event(ModelEvent::loss_gradient_ends, extras);
  return dlogits;
}

/// Each part in a tensor of the whole length, which is zero elsewhere, and their sum once more.
Tensor sum_of_parts(const Pass& pass, std::vector<Tensor> parts) {
  Shape shape = parts.front().shape();
  shape.extent[0] = 0;
  for (const Tensor& part : parts) shape.extent[0] += part.shape()[0];
  Tensor sum;
  int64_t end = shape[0];
  for (; !parts.empty(); parts.pop_back()) {
    const int64_t count = parts.back().shape()[0];
    end -= count;
    const Tensor whole = pass.allocate(shape);
    pass.run(Fill{whole, 0});
    pass.run(
        Copy{parts.back().view().matrix(), MiniSequence{end, count}.of(whole).view().matrix()});
    if (sum.empty())
      sum = whole;
    else
      pass.run(BiasDropoutAdd{.x = sum.view().matrix(),
                              .residual = whole.view().matrix(),
                              .y = sum.view().matrix(),
                              .dropout = {}});
  }
  return pass.copied(sum);
}

}  // namespace

Tensor backward(const Pass& outer, const Parameter& table, float scale, Saved saved) {
  const Pass pass = outer.in(Part::head);
  if (!saved.dinputs.empty())
    return parallel::leave(pass, sum_of_parts(pass, std::move(saved.dinputs))).wait();
  if (in_parts(pass.rank.config)) return saved.dinput;
  const Tensor dlogits = logits_gradient(pass, scale, saved);
  saved.logits.release();
  Tensor dx = column_parallel_backward(pass, dlogits, saved.input, table, nullptr);
  pass.event(ModelEvent::head_backward_ends, saved.extras);
  return dx;
}

}  // namespace frugal::engine::output_layer
