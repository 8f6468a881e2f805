#include "engine/memory/tensor.h"

namespace frugal {

struct Tensor::Storage {
  Storage(Ledger& ledger, int64_t bytes, Kind kind)
      : ledger(ledger), entry(ledger.take(bytes, kind)) {}
  ~Storage() { ledger.give_back(entry); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Ledger& ledger;
  Ledger::Entry entry;
};

Tensor::Tensor(Ledger& ledger, Kind kind, DType type, const Shape& shape)
    : view_(nullptr, type, shape),
      storage_(std::make_shared<Storage>(ledger, view_.bytes(), kind)) {
  view_.data = storage_->entry.data;
}

Tensor Tensor::with_view(const View& view) const {
  Tensor t = *this;
  t.view_ = view;
  return t;
}

const Tensor& Tensor::labelled(Kind kind) const {
  if (storage_) storage_->ledger.relabel(storage_->entry, kind);
  return *this;
}

}  // namespace frugal
