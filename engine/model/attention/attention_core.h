#pragma once
#include <memory>

#include "engine/pass.h"

namespace frugal::engine {

/// Heads inside the tensors around attention; no copy is made. qkv is [s, b, groups, G + 2, d]: for
/// each head of keys and values the G heads of queries that share it, then its keys, then its
/// values. A context is [s, b, groups, G, d]. `groups` are those that a rank has.
class HeadViews {
 public:
  explicit HeadViews(const ModelConfig& model)
      : HeadViews(model.queries_per_group(), model.head_size()) {}
  /// Views without heads of queries: keys and values alone, [s, b, groups, 2, d].
  HeadViews(int64_t heads_per_group, int64_t head_size) : heads_(heads_per_group), d_(head_size) {}

  /// [b · groups, G, s, d], or where G is 1 [b · groups, s, d].
  View queries(const View& qkv) const { return several(qkv, heads_ + 2); }
  View context(const View& context) const { return several(context, heads_); }
  /// [b · groups, s, d].
  View keys(const View& qkv) const { return one(qkv, heads_, heads_ + 2); }
  View values(const View& qkv) const { return one(qkv, heads_ + 1, heads_ + 2); }
  /// All heads of queries, and keys with values, that are side by side in each group: [s, b ·
  /// groups, G · d] and [s, b · groups, 2d].
  View side_by_side_queries(const View& qkv) const { return side_by_side(qkv, 0, heads_); }
  View side_by_side_keys_and_values(const View& qkv) const { return side_by_side(qkv, heads_, 2); }
  View side_by_side_keys(const View& qkv) const { return side_by_side(qkv, heads_, 1); }
  View side_by_side_values(const View& qkv) const { return side_by_side(qkv, heads_ + 1, 1); }
  /// Head `head` of each group: [b · groups, s, d].
  View query(const View& qkv, int64_t head) const { return one(qkv, head, heads_ + 2); }
  View context(const View& context, int64_t head) const { return one(context, head, heads_); }
  /// [s, b · groups, G + 1, d].
  View queries_and_keys(const View& qkv) const {
    const int64_t s = qkv.shape[0], row = qkv.size() / s, group = (heads_ + 2) * d_;
    return qkv.strided(0, {s, row / group, heads_ + 1, d_}, {row, group, d_, 1});
  }

  /// [s, b · groups, 1, d].
  View keys_of_positions(const View& qkv) const {
    const int64_t s = qkv.shape[0], row = qkv.size() / s, group = (heads_ + 2) * d_;
    return qkv.strided(heads_ * d_, {s, row / group, 1, d_}, {row, group, d_, 1});
  }

  int64_t heads_per_group() const { return heads_; }
  int64_t head_size() const { return d_; }

 private:
  /// `count` heads from the `first` on in each group of queries, keys and values.
  View side_by_side(const View& x, int64_t first, int64_t count) const {
    const int64_t s = x.shape[0], row = x.size() / s, group = (heads_ + 2) * d_;
    return x.strided(first * d_, {s, row / group, count * d_}, {row, group, 1, 0});
  }
  /// Head `which` of `of` in each group.
  View one(const View& x, int64_t which, int64_t of) const {
    const int64_t s = x.shape[0], row = x.size() / s, group = of * d_;
    return x.strided(which * d_, {row / group, s, d_}, {group, row, 1, 0});
  }
  /// The first G heads of `of` in each group.
  View several(const View& x, int64_t of) const {
    if (heads_ == 1) return one(x, 0, of);
    const int64_t s = x.shape[0], row = x.size() / s, group = of * d_;
    return x.strided(0, {row / group, heads_, s, d_}, {group, d_, row, 1});
  }

  int64_t heads_, d_;
};

/// Sizes of queries, keys and values where they are tensors of their own; otherwise empty.
Pieces pieces_of_qkv(const RunConfig& config);

/// Core of self-attention between its projections: softmax(QKᵀ / √d), dropout, times V, for the
/// heads of this rank. Where ranks share a sequence (RunConfig::context_parallel), s below is the
/// part s/c that a rank has, and it sees the whole.
class AttentionCore {
 public:
  /// Kept for the backward pass.
  struct Saved {
    Tensor qkv;            // [s, b, groups · (G + 2) · d], as arranged() gives it
    Tensor probabilities;  // [b · heads, s, s]; separate operations keep the three of [s, s],
    Tensor mask;           // [b · heads, s, s] u8, where masks are stored; 5as²b bytes in 16 bit
    Tensor dropped;        // [b · heads, s, s], the probabilities themselves without dropout
    Tensor log_sum_exp;    // [b · heads, s]: statistics; the fused operation keeps these
    Extras extras;

    /// Marks its tensors as kept, without those that are recomputed.
    Saved kept(const Pass& pass) const;
    /// Adds all but the statistics.
    void add_to(KeptTensors& kept) {
      kept.push_back({LayerModule::projection, &qkv});
      for (Tensor* tensor : {&probabilities, &mask, &dropped})
        kept.push_back({LayerModule::core_attention, tensor});
      for (Tensor* tensor : extras.tensors()) kept.push_back({LayerModule::core_attention, tensor});
    }
  };

  /// Makes the core that the run's configuration asks for.
  static std::unique_ptr<const AttentionCore> make(const RunConfig& config, int layer);

  /// `views`: how heads lie in the tensors that it is given.
  AttentionCore(int layer, const HeadViews& views) : layer_(layer), views_(views) {}
  virtual ~AttentionCore() = default;

  /// qkv [s, b, groups · (G + 2) · d] as the core computes with it: itself, or where ranks exchange
  /// parts of it what they have then.
  virtual Tensor arranged(const Pass&, Tensor qkv) const { return qkv; }
  /// saved.qkv → context [s, b, groups · G · d], and what else is saved.
  virtual Tensor forward(const Pass& pass, Saved& saved) const = 0;
  /// True if backward needs the context, too; otherwise it is given none.
  virtual bool needs_context() const { return true; }
  /// dQ, dK and dV, laid out as qkv is. What it is given is released when it is not needed.
  virtual Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const = 0;

 protected:
  /// saved.qkv, which counts as kept from here on unless it is made again.
  static View kept_qkv(const Pass& pass, const Saved& saved);
  /// [s, b, groups · G · d] beside qkv.
  Tensor allocate_context(const Pass& pass, const View& qkv) const;
  /// The factor of scores, 1/√d or the model's own.
  static float scale_of(const ModelConfig& m);

  int layer_;
  HeadViews views_;
};

/// Memory for the gradients of queries, keys and values: one tensor, laid out as qkv is
/// [s, b, groups · (G + 2) · d]; or where they are joined (AttentionChoices) one for each, which is
/// allocated when it is first asked for.
class HeadGradients {
 public:
  /// `qkv` is what they are the gradients of.
  HeadGradients(const Pass& pass, const HeadViews& views, const View& qkv);

  /// Gradients of what HeadViews has of qkv.
  View queries();
  View query(int64_t head);
  View keys();
  View values();
  /// All of them in one tensor. Nothing is asked for after this.
  Tensor joined();

 private:
  bool together() const { return !all_.empty(); }
  /// Makes one tensor for all, laid out as qkv is.
  Tensor in_one() const;
  /// [s, b, groups · heads · d]
  const Tensor& taken(Tensor& part, int64_t heads);

  const Pass& pass_;
  const HeadViews views_, each_;
  const View qkv_;
  Tensor all_, queries_, keys_, values_;
};

// Cores of heads that lie as `views` says.
std::unique_ptr<const AttentionCore> make_separate_core(int layer, const HeadViews& views);
std::unique_ptr<const AttentionCore> make_ring_core(int layer, const HeadViews& views);
using MakeCore = std::unique_ptr<const AttentionCore> (*)(const RunConfig& config, int layer,
                                                          const HeadViews& views);
/// Core whose ranks exchange heads: `inner` makes the one that computes a rank's.
std::unique_ptr<const AttentionCore> make_ulysses_core(const RunConfig& config, int layer,
                                                       MakeCore inner);

}  // namespace frugal::engine
