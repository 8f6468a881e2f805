#include "engine/model/attention/head_gradients.h"

#include "engine/model/attention/attention_core.h"

namespace frugal::engine {

HeadGradients::HeadGradients(const Pass& pass, const HeadViews& views, const View& qkv)
    : pass_(pass), views_(views), each_(1, views.head_size()), qkv_(qkv) {
  if (!pass.rank.config.program.attention.joined_gradients) all_ = in_one();
}

Tensor HeadGradients::in_one() const {
  return pass_.allocate(qkv_.type, qkv_.shape, pieces_of_qkv(pass_.rank.config));
}

const Tensor& HeadGradients::taken(Tensor& part, int64_t heads) {
  const int64_t columns = qkv_.shape[2] / (views_.heads_per_group() + 2) * heads;
  if (part.empty()) part = pass_.allocate({qkv_.shape[0], qkv_.shape[1], columns});
  return part;
}

View HeadGradients::queries() {
  return together() ? views_.queries(all_)
                    : views_.context(taken(queries_, views_.heads_per_group()));
}

View HeadGradients::query(int64_t head) {
  return together() ? views_.query(all_, head)
                    : views_.context(taken(queries_, views_.heads_per_group()), head);
}

View HeadGradients::keys() {
  return together() ? views_.keys(all_) : each_.context(taken(keys_, 1));
}

View HeadGradients::values() {
  return together() ? views_.values(all_) : each_.context(taken(values_, 1));
}

Tensor HeadGradients::joined() {
  if (together()) return std::move(all_);
  Tensor all = in_one();
  const auto join = [&](const Tensor& part, const View& to) {
    pass_.run(Copy{part.view().reshaped(to.shape), to});
  };
  join(queries_, views_.side_by_side_queries(all));
  join(keys_, views_.side_by_side_keys(all));
  join(values_, views_.side_by_side_values(all));
  return all;
}

}  // namespace frugal::engine
