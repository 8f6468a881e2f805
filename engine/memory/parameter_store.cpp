#include "engine/memory/parameter_store.h"

#include <stdexcept>

namespace frugal {
const Tensor& ParameterStore::reserve(Ledger& ledger, DType type) {
  counting_ = false;
  weights_ = Tensor(ledger, Kind::parameter, type, {counted_});
  gradients_ = Tensor(ledger, Kind::gradient, accumulation_type(type), {counted_});
  used_ = 0;
  return weights_;
}

ParameterStore::Place ParameterStore::take(Ledger& ledger, DType type, const Shape& shape) {
  if (weights_.empty())
    return {Tensor(ledger, Kind::parameter, type, shape),
            Tensor(ledger, Kind::gradient, accumulation_type(type), shape), -1};
  const int64_t offset = used_, elements = shape.size();
  used_ += padded(elements);
  if (used_ > counted_) throw std::logic_error("more parameters than were counted");
  const auto part = [&](const Tensor& block) {
    return block.with_view(block.view().sliced(0, offset, elements).reshaped(shape));
  };
  return {part(weights_), part(gradients_), offset};
}

void ParameterStore::close() {
  weights_.release();
  gradients_.release();
}

}  // namespace frugal
