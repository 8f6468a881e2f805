#pragma once
#include <array>
#include <cassert>
#include <initializer_list>

#include "kernels/types.h"

namespace frugal::kernels {

/// Up to four extents, outermost first; extents beyond `dims` are not used.
struct Shape {
  static constexpr int max_dims = 4;
  int dims = 0;
  std::array<int64_t, max_dims> extent{};

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) {
    assert(extents.size() <= max_dims);
    for (const int64_t e : extents) extent[static_cast<size_t>(dims++)] = e;
  }
  int64_t operator[](int i) const { return extent[static_cast<size_t>(i)]; }
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < dims; ++i) n *= (*this)[i];
    return n;
  }
  bool operator==(const Shape&) const = default;
};

/// Elements in a device's memory, not owned: address, type, shape and strides (in elements).
/// On a virtual device `data` is null and everything else is as it would be.
/// A default-constructed View is *empty*: an operand that is not there.
struct View {
  void* data = nullptr;
  DType type = DType::f32;
  Shape shape;
  std::array<int64_t, Shape::max_dims> stride{};

  View() = default;
  /// Contiguous, row-major.
  View(void* data, DType type, const Shape& shape) : data(data), type(type), shape(shape) {
    int64_t step = 1;
    for (int i = shape.dims - 1; i >= 0; --i) {
      stride[static_cast<size_t>(i)] = step;
      step *= shape[i];
    }
  }

  bool empty() const { return shape.dims == 0; }
  int64_t size() const { return empty() ? 0 : shape.size(); }
  int64_t bytes() const { return size() * size_of(type); }
  /// The last extent.
  int64_t cols() const { return empty() ? 0 : shape[shape.dims - 1]; }
  /// The product of all extents but the last.
  int64_t rows() const {
    const int64_t last = cols();
    return last == 0 ? 0 : size() / last;
  }
  bool contiguous() const {
    int64_t step = 1;
    for (int i = shape.dims - 1; i >= 0; --i) {
      if (shape[i] != 1 && stride[static_cast<size_t>(i)] != step) return false;
      step *= shape[i];
    }
    return true;
  }

  template <class T>
  T* as() const {
    assert(dtype_of<T> == type || empty());
    return static_cast<T*>(data);
  }

  /// Contiguous elements under another shape.
  View reshaped(const Shape& to) const {
    assert(contiguous() && to.size() == size());
    return {data, type, to};
  }
  /// Contiguous elements as [rows, cols].
  View matrix() const { return reshaped({rows(), cols()}); }
  /// Contiguous elements in one dimension.
  View flat() const { return reshaped({size()}); }
  /// `count` steps of dimension `dim` from `begin`; strides are kept.
  View sliced(int dim, int64_t begin, int64_t count) const {
    assert(begin >= 0 && begin + count <= shape[dim]);
    View v = *this;
    v.shape.extent[static_cast<size_t>(dim)] = count;
    v.data = offset(begin * stride[static_cast<size_t>(dim)]);
    return v;
  }
  /// Any view of the same memory: `first` elements on, with the given shape and strides.
  View strided(int64_t first, const Shape& to,
               const std::array<int64_t, Shape::max_dims>& steps) const {
    View v = *this;
    v.data = offset(first);
    v.shape = to;
    v.stride = steps;
    return v;
  }

 private:
  void* offset(int64_t elements) const {
    return data == nullptr ? nullptr : static_cast<char*>(data) + elements * size_of(type);
  }
};

}  // namespace frugal::kernels
