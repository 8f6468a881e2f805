#include "engine/model/attention/ring_core.h"

#include "engine/model/converted.h"
#include "engine/model/saved.h"

namespace frugal::engine {
namespace {

/// A tensor of each rank that goes around the ring.
class Travelling {
 public:
  explicit Travelling(Tensor own) : here_(std::move(own)) {}

  /// What has come last.
  const Tensor& here() const { return here_; }
  /// Sends it on, beside what is computed until arrive().
  void leave(const Pass& pass) {
    next_ = pass.allocate(here_.type(), here_.shape(), Kind::communication);
    pending_ = pass.rank.groups.context.shift(here_, next_);
  }
  /// What was sent on is replaced by what the rank before has sent.
  void arrive() {
    pending_.wait();
    here_ = std::move(next_);
  }

 private:
  Tensor here_, next_;
  Pending pending_;  // last, so that it ends before the memory goes
};

/// Whether the rank's queries see the part that has come in this step: that of the rank so many
/// before it, or in a ring behind it.
bool sees(const Rank& rank, int step) {
  return !rank.config.model.causal || step <= rank.groups.context.rank();
}

/// Runs a step's operation. Of those with parts that are not its own the last rank of a causal ring
/// computes all and the ranks on average half, which is what counts where it stands for all.
void run(const Pass& pass, int step, const Operation& operation) {
  pass.run(operation);
  if (step > 0 && pass.rank.config.model.causal && !pass.rank.groups.context.whole())
    pass.rank.flops.add(-cost_of(operation).flops / 2);
}

}  // namespace

Tensor RingCore::allocate_block(const Pass& pass, const View& qkv, DType type) const {
  const int64_t columns = qkv.cols() / (views_.heads_per_group() + 2) * 2;
  return pass.allocate(type, {qkv.shape[0], qkv.shape[1], columns}, Kind::communication);
}

Tensor RingCore::own_block(const Pass& pass, const View& qkv) const {
  Tensor block = allocate_block(pass, qkv, qkv.type);
  pass.run(Copy{views_.side_by_side_keys_and_values(qkv),
                block_views().side_by_side_keys_and_values(block)});
  return block;
}

FusedAttention RingCore::operation(const Pass& pass, int step, const View& qkv, const View& block,
                                   const View& context, const View& log_sum_exp) const {
  FusedAttention attention = FusedCore::operation(pass, qkv, context, log_sum_exp);
  if (step == 0) return attention;
  attention.k = block_views().keys(block);
  attention.v = block_views().values(block);
  attention.causal = false;  // all of it comes before the queries, where that matters
  return attention;
}

Tensor RingCore::begin(const Pass& pass, const View& qkv, const View& log_sum_exp) const {
  const Tensor context = allocate_context(pass, qkv);
  run(pass, 0, operation(pass, 0, qkv, {}, context, log_sum_exp));
  return converted(pass, context, accumulation_type(qkv.type));
}

void RingCore::add(const Pass& pass, int step, const View& qkv, const View& block,
                   const View& context, const View& log_sum_exp) const {
  const Tensor part = allocate_context(pass, qkv), sums = allocate_log_sum_exp(pass, qkv);
  run(pass, step, operation(pass, step, qkv, block, part, sums));
  const HeadViews each(1, views_.head_size());
  pass.run(MergeAttention{.y = each.context(context),
                          .log_sum_exp = log_sum_exp,
                          .part = each.context(part),
                          .part_log_sum_exp = sums});
}

Tensor RingCore::forward(const Pass& pass, Saved& saved) const {
  const int last = pass.rank.groups.context.size() - 1;
  const View qkv = kept_qkv(pass, saved);
  saved.log_sum_exp = allocate_log_sum_exp(pass, qkv);
  Travelling block(own_block(pass, qkv));
  Tensor context;
  for (int step = 0; step <= last; ++step) {
    if (step < last) block.leave(pass);
    if (step == 0)
      context = begin(pass, qkv, saved.log_sum_exp);
    else if (sees(pass.rank, step))
      add(pass, step, qkv, block.here(), context, saved.log_sum_exp);
    if (step < last) block.arrive();
  }
  return converted(pass, context, qkv.type);
}

Tensor RingCore::backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const {
  const int last = pass.rank.groups.context.size() - 1;
  const View qkv = saved.qkv;
  const DType wide = accumulation_type(qkv.type);
  Tensor part = pass.allocate(qkv.shape);
  const Tensor sum = pass.allocate(wide, qkv.shape);
  Travelling block(own_block(pass, qkv)), gradient(allocate_block(pass, qkv, wide));
  const auto of_block = [this](const View& x) {
    return block_views().side_by_side_keys_and_values(x);
  };
  for (int step = 0; step <= last; ++step) {
    if (step < last) block.leave(pass);
    const bool adds = sees(pass.rank, step);
    if (adds)
      run(pass, step,
          FusedAttentionBackward{
              .forward = operation(pass, step, qkv, block.here(), context, saved.log_sum_exp),
              .dy = views_.context(dcontext),
              .dq = views_.queries(part),
              .dk = views_.keys(part),
              .dv = views_.values(part)});
    if (step > 0) gradient.arrive();
    if (adds) {
      pass.run(Copy{views_.side_by_side_queries(part), views_.side_by_side_queries(sum), step > 0});
      pass.run(
          Copy{views_.side_by_side_keys_and_values(part), of_block(gradient.here()), step > 0});
    }
    gradient.leave(pass);
    if (step < last) block.arrive();
  }
  part.release();
  gradient.arrive();
  pass.run(Copy{of_block(gradient.here()), views_.side_by_side_keys_and_values(sum)});
  return converted(pass, sum, qkv.type);
}

}  // namespace frugal::engine
