#include <array>
#include <stdexcept>

#include "kernels/cuda/ops/division.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/strides.cuh"

// A copy is walked over in packs of its innermost extent, after extents that follow each other in
// memory on both sides have become one: of contiguous views, one row.
namespace frugal::kernels::cuda {
namespace {

/// One extent, and the elements from one of its steps to the next.
struct Extent {
  int64_t size, x, y;
};

/// Innermost first. Neighbours lie next to each other in the first one.
class Walk {
 public:
  Walk(const View& x, const View& y) {
    for (int i = x.shape.dims - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      if (x.shape[i] != 1) add({x.shape[i], x.stride[at], y.stride[at]});
    }
    if (count_ == 0) extents_[count_++] = {1, 1, 1};
  }
  const Extent& operator[](size_t i) const { return extents_.at(i); }
  /// Walk in elements of 16 bits over views of this type whose rows are contiguous.
  Walk as_halves(DType type) const {
    const int64_t factor = size_of(type) / size_of(DType::bf16);
    Walk walk = *this;
    for (Extent& extent : walk.extents_) {
      extent.x *= factor;
      extent.y *= factor;
    }
    walk.extents_[0] = {extents_[0].size * factor, 1, 1};
    return walk;
  }

 private:
  void add(const Extent& next) {
    if (count_ == 0 && (next.x != 1 || next.y != 1))
      extents_[count_++] = {1, 1, 1};  // single elements, far from each other
    if (count_ > 0) {
      Extent& inner = extents_.at(count_ - 1);
      if (next.x == inner.x * inner.size && next.y == inner.y * inner.size) {
        inner.size *= next.size;
        return;
      }
    }
    extents_.at(count_++) = next;
  }

  std::array<Extent, 4> extents_{Extent{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}};
  size_t count_ = 0;
};

template <class From, class To>
struct Strided {
  const From* x;
  To* y;
  Extent cols, inner, middle, outer;
  Division packs, inner_size, middle_size;  ///< packs of a row

  Strided(const From* x, To* y, const Walk& walk, int64_t packs)
      : x(x),
        y(y),
        cols(walk[0]),
        inner(walk[1]),
        middle(walk[2]),
        outer(walk[3]),
        packs(static_cast<uint32_t>(packs)),
        inner_size(static_cast<uint32_t>(inner.size)),
        middle_size(static_cast<uint32_t>(middle.size)) {}
};

/// Place of pack `index` on both sides, and its number of elements.
struct Place {
  int64_t x, y, count;

  template <class From, class To>
  __device__ Place(const Strided<From, To>& op, uint32_t index) {
    const uint32_t row = op.packs.quotient(index), above = op.inner_size.quotient(row);
    const uint32_t c = op.middle_size.quotient(above), b = op.middle_size.rest(above, c);
    const uint32_t a = op.inner_size.rest(row, above);
    const int64_t col = int64_t{op.packs.rest(index, row)} * pack;
    x = col + a * op.inner.x + b * op.middle.x + c * op.outer.x;
    y = col + a * op.inner.y + b * op.middle.y + c * op.outer.y;
    count = op.cols.size - col < pack ? op.cols.size - col : pack;
  }
};

template <bool accumulate, class From, class To>
struct Moved {
  Packed<From> x;
  Packed<To> before;  // where it is accumulated into
  int64_t to, count;
};
template <class From, class To>
struct Moved<false, From, To> {
  Packed<From> x;
  int64_t to, count;
};

template <bool wide, bool accumulate, class From, class To>
__global__ void __launch_bounds__(elementwise_threads)
    copy(const Strided<From, To> op, int64_t packs) {
  using A = Accumulator<From>;
  constexpr int at_once = sizeof(From) == 2 ? 2 : 1;
  each_pack<at_once>(
      packs * pack,
      [&](int64_t i, int64_t) {
        const Place place(op, static_cast<uint32_t>(i / pack));
        Moved<accumulate, From, To> moved;
        moved.count = place.count;
        moved.to = place.y;
        moved.x = fetch<wide>(op.x + place.x, place.count);
        if constexpr (accumulate) moved.before = fetch<wide>(op.y + moved.to, moved.count);
        return moved;
      },
      [&](int64_t, int64_t, const Moved<accumulate, From, To>& moved) {
        if constexpr (!accumulate && std::is_same_v<From, To>) {
          put<wide>(op.y + moved.to, moved.count, moved.x);
        } else {
          A v[pack];
          moved.x.get(v);
          if constexpr (accumulate) {
            A before[pack];
            moved.before.get(before);
#pragma unroll
            for (int e = 0; e < pack; ++e) v[e] += before[e];
          }
          store<wide>(op.y + moved.to, moved.count, v);
        }
      });
}

/// True where every row begins at a multiple of 16 bytes, on both sides.
bool walk_wide(const Walk& walk, const View& x, const View& y) {
  bool wide = all_wide(walk[0].size, x, y);
  for (size_t i = 1; i < 4; ++i)
    wide = wide && step_wide(walk[i].x, x.type) && step_wide(walk[i].y, y.type);
  return wide;
}

template <bool wide, bool accumulate, class From, class To>
void launch_copy(const From* x, To* y, const Walk& walk, const Launch& on) {
  const int64_t of_row = (walk[0].size + pack - 1) / pack;
  const int64_t packs = of_row * walk[1].size * walk[2].size * walk[3].size;
  if (packs >> 32 != 0)
    throw std::length_error("copy: more than 2^32 packs, of 16 bytes or 8 elements");
  const Strided<From, To> strided(x, y, walk, of_row);
  launch(on, copy<wide, accumulate, From, To>, elementwise_blocks(on, packs * pack),
         elementwise_threads, strided, packs);
}

}  // namespace

template <>
void run(const Copy& op, const Launch& on) {
  if (op.x.size() == 0) return;
  const Walk walk(op.x, op.y);
  const bool wide = walk_wide(walk, op.x, op.y);
  // What does not change is moved 16 bytes at a time, neighbouring threads neighbouring ones.
  if (wide && !op.accumulate && op.x.type == op.y.type && op.x.type != DType::u8)
    return launch_copy<true, false>(static_cast<const Bf16*>(op.x.data),
                                    static_cast<Bf16*>(op.y.data), walk.as_halves(op.x.type), on);
  dispatch(op.x.type, wide, [&]<class From, class Wide>(From, Wide) {
    dispatch(op.y.type, Wide::value, [&]<class To, class Same>(To, Same) {
      if constexpr (Same::value == Wide::value &&
                    std::is_same_v<Accumulator<From>, Accumulator<To>>) {
        const auto* x = op.x.as<From>();
        auto* y = op.y.as<To>();
        if (op.accumulate)
          launch_copy<Wide::value, true>(x, y, walk, on);
        else if constexpr (!Wide::value || !std::is_same_v<From, To>)
          launch_copy<Wide::value, false>(x, y, walk, on);
      }
    });
  });
}

template <>
void run(const Transfer& op, const Launch& on) {
  check(cudaMemcpyAsync(op.to.data, op.from.data, static_cast<size_t>(op.to.bytes()),
                        cudaMemcpyDefault, on.stream),
        "cudaMemcpyAsync");
}

}  // namespace frugal::kernels::cuda
