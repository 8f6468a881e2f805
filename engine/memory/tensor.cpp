#include "engine/memory/tensor.h"

#include <numeric>

namespace frugal::engine {

struct Tensor::Storage {
  Storage(Ledger& ledger, int64_t bytes, Kind kind, Place place)
      : Storage(ledger, ledger.take(bytes, kind, place)) {}
  Storage(Ledger& ledger, const Ledger::Entry& entry) : ledger(&ledger), entry(entry) {}
  ~Storage() {
    if (ledger == nullptr) return;
    ledger->give_back(entry);
    for (const Ledger::Entry& piece : others) ledger->give_back(piece);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Ledger* ledger;  // null: the memory is somebody else's to give back
  Ledger::Entry entry;
  std::vector<Ledger::Entry> others;  // behind it, of memory in pieces
};

Tensor::Tensor(Ledger& ledger, Kind kind, DType type, const Shape& shape, Place place)
    : view_(nullptr, type, shape),
      storage_(std::make_shared<Storage>(ledger, view_.bytes(), kind, place)) {
  view_.data = ledger.values_at(storage_->entry);
}

Tensor::Tensor(Ledger& ledger, Kind kind, DType type, const Shape& shape, Place place,
               const Pieces& pieces)
    : view_(nullptr, type, shape) {
  if (pieces.empty() || ledger.has_values()) {
    *this = Tensor(ledger, kind, type, shape, place);
    return;
  }
  const int64_t whole = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
  int64_t left = view_.bytes();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int64_t bytes = i + 1 == pieces.size() ? left : view_.bytes() * pieces[i] / whole;
    left -= bytes;
    if (i == 0)
      storage_ = std::make_shared<Storage>(ledger, bytes, kind, place);
    else
      storage_->others.push_back(ledger.take(bytes, kind, place));
  }
}

Tensor::Tensor(Ledger& ledger, const Ledger::Entry& entry, DType type, const Shape& shape)
    : view_(ledger.values_at(entry), type, shape),
      storage_(std::make_shared<Storage>(ledger, entry)) {}

std::optional<Ledger::Entry> Tensor::sole_entry() const {
  if (storage_.use_count() != 1 || !storage_->others.empty()) return std::nullopt;
  return storage_->entry;
}

void Tensor::leave_counted() {
  if (storage_) storage_->ledger = nullptr;
  release();
}

Place Tensor::place() const { return storage_ ? storage_->entry.place : Place{}; }

Tensor Tensor::memory() const {
  Tensor all;
  if (!storage_) return all;
  int64_t bytes = storage_->entry.bytes;
  for (const Ledger::Entry& piece : storage_->others) bytes += piece.bytes;
  all.storage_ = storage_;
  all.view_ = View(storage_->ledger->values_at(storage_->entry), DType::u8, {bytes});
  return all;
}

Tensor Tensor::as_much_of(Ledger& ledger, Kind kind, Place place) const {
  Tensor tensor;
  tensor.storage_ = std::make_shared<Storage>(ledger, storage_->entry.bytes, kind, place);
  for (const Ledger::Entry& piece : storage_->others)
    tensor.storage_->others.push_back(ledger.take(piece.bytes, kind, place));
  return tensor.memory();
}

int64_t Tensor::first_byte() const {
  const void* begin = memory().view().data;
  if (begin == nullptr) return 0;
  return static_cast<const char*>(view_.data) - static_cast<const char*>(begin);
}

Tensor Tensor::at(int64_t first_byte, const View& like) const {
  Tensor tensor = memory();
  void* const begin = tensor.view_.data;
  tensor.view_ = like;
  tensor.view_.data = begin == nullptr ? nullptr : static_cast<char*>(begin) + first_byte;
  return tensor;
}

Tensor Tensor::with_view(const View& view) const {
  Tensor t = *this;
  t.view_ = view;
  return t;
}

const Tensor& Tensor::labelled(Kind kind, Place place) const {
  if (!storage_) return *this;
  storage_->ledger->relabel(storage_->entry, kind, place);
  for (Ledger::Entry& piece : storage_->others) storage_->ledger->relabel(piece, kind, place);
  return *this;
}

}  // namespace frugal::engine
