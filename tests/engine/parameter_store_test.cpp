#include "engine/memory/parameter_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/device.h"

namespace frugal::engine {
namespace {

TEST(ParameterStore, ParametersBeginWhereTheyCanBeReadInWholePacks) {
  CpuDevice device(1);
  const Shape shapes[] = {{3}, {5, 2}, {9}, {7, 3}, {1}, {8}};
  for (const bool vectors_last : {false, true}) {
    Ledger ledger(device);
    ParameterStore store;
    const ParameterStore::Types types{DType::bf16, DType::f32, vectors_last};
    store.count(types);
    for (const Shape& shape : shapes) store.add(shape);
    const Tensor block = store.reserve(ledger, types);
    int64_t end_of_matrices = 0, first_vector = block.view().size();
    for (const Shape& shape : shapes) {
      const ParameterStore::Memory memory = store.take(ledger, types, shape);
      EXPECT_EQ(memory.offset % ParameterStore::alignment, 0) << shape.size();
      EXPECT_LE(memory.offset + shape.size(), block.view().size());
      if (shape.dims == 1)
        first_vector = std::min(first_vector, memory.offset);
      else
        end_of_matrices = std::max(end_of_matrices, memory.offset + shape.size());
    }
    EXPECT_EQ(first_vector >= end_of_matrices, vectors_last);
  }
}

}  // namespace
}  // namespace frugal::engine
