#include "engine/model/mlp.h"

#include "engine/model/hidden_dropout.h"
#include "engine/model/initial.h"
#include "engine/model/saved.h"

namespace frugal {

Mlp::Mlp(Rank& rank, const std::string& name, int layer)
    : layer_(layer),
      up_(rank, name + ".up", rank.config.model.hidden, 4 * rank.config.model.hidden,
          initial::weight()),
      down_(rank, name + ".down", 4 * rank.config.model.hidden, rank.config.model.hidden,
            initial::residual_weight(rank.config.model)) {}

Tensor Mlp::forward(Rank& rank, const Tensor& x, const Tensor& residual, Saved& saved) const {
  saved.input = keep(x);
  saved.z = keep(up_.forward_gelu(rank, x, saved.u));
  keep(saved.u);
  const Tensor projected = down_.forward(rank, saved.z);
  return add_dropped(rank, projected, down_.bias(), residual, saved.mask,
                     randomness::of_hidden(rank, randomness::Site::mlp_output, layer_));
}

Tensor Mlp::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  Tensor dprojected =
      undo_dropped(rank, dy, saved.mask, down_.bias(),
                   randomness::of_hidden(rank, randomness::Site::mlp_output, layer_));
  const Tensor du = down_.backward_gelu(rank, dprojected, saved.z, saved.u);
  dprojected.release();
  saved.z.release();
  saved.u.release();
  return up_.backward(rank, du, saved.input);
}

ParameterList Mlp::parameters() { return join({up_.parameters(), down_.parameters()}); }

}  // namespace frugal
