#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/memory/ledger.h"

namespace frugal::engine {

/// Sizes of parts of a tensor that a program has as tensors of their own.
using Pieces = std::vector<int64_t>;

/// A view together with a share in the memory behind it, which goes back to the ledger with the
/// last share. Copies are cheap and refer to the same elements.
class Tensor {
 public:
  Tensor() = default;
  /// New memory of the given kind, content arbitrary; throws OutOfMemory.
  Tensor(Ledger& ledger, Kind kind, DType type, const Shape& shape, Place place = {});
  /// Allocates pieces of memory whose sizes are in proportion to `pieces`; none: one piece. A
  /// tensor without values need not be in one.
  Tensor(Ledger& ledger, Kind kind, DType type, const Shape& shape, Place place,
         const Pieces& pieces);
  /// Memory without values that the ledger counts already: the entry goes back to it with the last
  /// share.
  Tensor(Ledger& ledger, const Ledger::Entry& entry, DType type, const Shape& shape);

  const View& view() const { return view_; }
  operator const View&() const { return view_; }  // NOLINT: a tensor is used where a view is
  bool empty() const { return view_.empty(); }
  const Shape& shape() const { return view_.shape; }
  DType type() const { return view_.type; }

  /// Part of a run that its memory belongs to.
  Place place() const;
  /// True if both have a share in the same memory, which is not empty.
  bool shares_memory_with(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }
  /// All of that memory, as bytes: [n] u8.
  Tensor memory() const;
  /// Memory of another ledger, of as many bytes in as many pieces: [n] u8, content arbitrary;
  /// throws OutOfMemory.
  Tensor as_much_of(Ledger& ledger, Kind kind, Place place) const;
  /// Offset in its memory, in bytes; 0 where that has no values.
  int64_t first_byte() const;
  /// A view as `like` of this memory, which begins at such a byte.
  Tensor at(int64_t first_byte, const View& like) const;

  /// Shares the memory under another shape, or as a part.
  Tensor with_view(const View& view) const;
  Tensor reshaped(const Shape& to) const { return with_view(view_.reshaped(to)); }

  /// Counts it under this kind and at this place from now on, for all who share it.
  const Tensor& labelled(Kind kind, Place place) const;
  void release() { *this = Tensor(); }

  /// Entry in the ledger, where no other tensor shares the memory.
  std::optional<Ledger::Entry> sole_entry() const;
  /// Releases memory that stays counted: nobody gives it back.
  void leave_counted();

 private:
  struct Storage;
  View view_;
  std::shared_ptr<Storage> storage_;
};

}  // namespace frugal::engine
