#pragma once
#include "engine/model/head/head_views.h"
#include "engine/pass.h"

namespace frugal::engine {

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

}  // namespace frugal::engine
