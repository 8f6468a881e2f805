#include "engine/memory/parameter_store.h"

#include <stdexcept>

namespace frugal::engine {
namespace {

Tensor gradients(Ledger& ledger, const ParameterStore::Types& types, const Shape& shape,
                 Place place, const Pieces& pieces) {
  return types.gradient ? Tensor(ledger, Kind::gradient, *types.gradient, shape, place, pieces)
                        : Tensor();
}

}  // namespace

const Tensor& ParameterStore::reserve(Ledger& ledger, const Types& types) {
  counting_ = false;
  const Pieces pieces = types.separate ? sizes_ : Pieces();
  weights_ = Tensor(ledger, Kind::parameter, types.weight, {counted_}, {}, pieces);
  gradients_ = gradients(ledger, types, {counted_}, {}, pieces);
  next_ = 0;
  next_vector_ = counted_ - vectors_;
  return weights_;
}

ParameterStore::Memory ParameterStore::take(Ledger& ledger, const Types& types, const Shape& shape,
                                            Place place) {
  if (weights_.empty())
    return {Tensor(ledger, Kind::parameter, types.weight, shape, place),
            gradients(ledger, types, shape, place, {}), -1};
  int64_t& next = types.vectors_last && shape.dims == 1 ? next_vector_ : next_;
  const int64_t offset = next, elements = shape.size();
  next += padded(elements);
  if (next > counted_) throw std::logic_error("more parameters than were counted");
  const auto part = [&](const Tensor& block) {
    return block.empty()
               ? Tensor()
               : block.with_view(block.view().sliced(0, offset, elements).reshaped(shape));
  };
  return {part(weights_), part(gradients_), offset};
}

void ParameterStore::close() {
  weights_.release();
  gradients_.release();
}

}  // namespace frugal::engine
