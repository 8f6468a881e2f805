#include "engine/memory/tensor.h"

namespace frugal::engine {

struct Tensor::Storage {
  Storage(Ledger& ledger, int64_t bytes, Kind kind, Place place)
      : Storage(ledger, ledger.take(bytes, kind, place)) {}
  Storage(Ledger& ledger, const Ledger::Entry& entry) : ledger(&ledger), entry(entry) {}
  ~Storage() {
    if (ledger != nullptr) ledger->give_back(entry);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Ledger* ledger;  // null: the memory is somebody else's to give back
  Ledger::Entry entry;
};

Tensor::Tensor(Ledger& ledger, Kind kind, DType type, const Shape& shape, Place place)
    : view_(nullptr, type, shape),
      storage_(std::make_shared<Storage>(ledger, view_.bytes(), kind, place)) {
  view_.data = ledger.values_at(storage_->entry);
}

Tensor::Tensor(Ledger& ledger, const Ledger::Entry& entry, DType type, const Shape& shape)
    : view_(ledger.values_at(entry), type, shape),
      storage_(std::make_shared<Storage>(ledger, entry)) {}

std::optional<Ledger::Entry> Tensor::sole_entry() const {
  if (storage_.use_count() != 1) return std::nullopt;
  return storage_->entry;
}

void Tensor::leave_counted() {
  if (storage_) storage_->ledger = nullptr;
  release();
}

Tensor Tensor::with_view(const View& view) const {
  Tensor t = *this;
  t.view_ = view;
  return t;
}

const Tensor& Tensor::labelled(Kind kind, Place place) const {
  if (storage_) storage_->ledger->relabel(storage_->entry, kind, place);
  return *this;
}

}  // namespace frugal::engine
