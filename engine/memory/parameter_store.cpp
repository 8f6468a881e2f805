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

void ParameterStore::count(const Types& types) {
  counting_ = true;
  counted_ = vectors_ = 0;
  parts_ = types.parts;
  sizes_.clear();
  units_.clear();
}

void ParameterStore::end_unit() {
  if (units_.empty()) return;
  ParameterUnit& unit = *units_.back();
  const int64_t used = counted_ - unit.offset, each = alignment * parts_;
  unit.elements = (used + each - 1) / each * each;
  if (unit.elements > used) unit.gaps.push_back({counted_, unit.elements - used});
  counted_ = unit.offset + unit.elements;
}

void ParameterStore::begin_unit() {
  if (parts_ == 1) return;
  if (!counting_) {
    if (next_unit_ < units_.size()) next_ = units_[next_unit_++]->offset;
    return;
  }
  end_unit();
  units_.push_back(std::make_shared<ParameterUnit>());
  units_.back()->offset = counted_;
  units_.back()->parts = parts_;
}

void ParameterStore::add(const Shape& shape) {
  const int64_t elements = shape.size(), end = counted_ + elements;
  counted_ += padded(elements);
  if (shape.dims == 1) vectors_ += padded(elements);
  sizes_.push_back(elements);
  if (parts_ > 1 && counted_ > end) units_.back()->gaps.push_back({end, counted_ - end});
}

const Tensor& ParameterStore::reserve(Ledger& ledger, const Types& types) {
  end_unit();
  counting_ = false;
  const Pieces pieces = types.separate ? sizes_ : Pieces();
  const int64_t here = counted_ / (types.part_of_weights ? parts_ : 1);
  const DType kept = types.wide_parts ? accumulation_type(types.weight) : types.weight;
  weights_ = Tensor(ledger, Kind::parameter, kept, {here}, {}, pieces);
  weights_ = weights_.with_view({weights_.view().data, types.weight, {here}});
  gradients_ = gradients(ledger, types, {counted_}, {}, pieces);
  next_ = 0;
  next_unit_ = 0;
  next_vector_ = counted_ - vectors_;
  return weights_;
}

ParameterStore::Memory ParameterStore::take(Ledger& ledger, const Types& types, const Shape& shape,
                                            Place place) {
  if (weights_.empty())
    return {Tensor(ledger, Kind::parameter, types.weight, shape, place),
            gradients(ledger, types, shape, place, {}), -1, nullptr};
  int64_t& next = types.vectors_last && shape.dims == 1 ? next_vector_ : next_;
  const int64_t offset = next, elements = shape.size();
  next += padded(elements);
  if (next > counted_) throw std::logic_error("more parameters than were counted");
  const auto part = [&](const Tensor& block) {
    return block.empty()
               ? Tensor()
               : block.with_view(block.view().sliced(0, offset, elements).reshaped(shape));
  };
  const auto unit = next_unit_ > 0 ? units_[next_unit_ - 1] : nullptr;
  return {types.part_of_weights ? Tensor(ledger, Kind::communication, types.weight, shape, place)
                                : part(weights_),
          part(gradients_), offset, unit};
}

void ParameterStore::close() {
  weights_.release();
  gradients_.release();
  units_.clear();
  next_unit_ = 0;
  parts_ = 1;
}

}  // namespace frugal::engine
