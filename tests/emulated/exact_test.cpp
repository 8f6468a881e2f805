// What the CUDA kernels must have in common with the CPU's bit for bit, where the operation table
// does not get to: random numbers in whole groups, sorted sums, types that are no numbers' own.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cpu/device.h"
#include "kernels/table/oracle.h"
#include "tests/emulated/device.h"
#include "tests/main/left_out.h"
#include "tests/support/run_case.h"

namespace frugal::kernels::table {
namespace {

class Exact : public ::testing::Test {
 protected:
  void expect_the_cpus(const Case& test_case, const Values& before) {
    CpuDevice cpu(1);
    const Memory theirs = run(cpu, test_case, before);
    for (const int64_t shift : {0, 1}) {
      const auto emulated = make_emulated_device(3, test_seed());
      EXPECT_TRUE(run(*emulated, test_case, before, {.shift = shift}) == theirs)  // not printed
          << shift << " elements off the boundary";
    }
  }
  void expect_the_cpus(const Case& test_case) {
    expect_the_cpus(test_case, random_values(test_case, test_seed()));
  }

  const ::testing::ScopedTrace seed_{__FILE__, __LINE__, test_seed()};
  std::mt19937_64 random_{test_seed()};
  /// Serial, of whole packs, of whole groups of four, of neither; group numbers pass 2^32.
  const GlobalIndex indices_[5] = {{},
                                   {(int64_t{1} << 35) - 80, 16, 64},
                                   {(int64_t{1} << 34) - 80, 48, 64},
                                   {(int64_t{1} << 34) - 84, 12, 28},
                                   {(int64_t{1} << 34) - 81, 7, 15}};
};

FRUGAL_LEFT_OUT(address, "Exact.*",
                "minutes for the bits of what runs in the operations' rows too");
TEST_F(Exact, NormalNumbers) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const GlobalIndex& index : indices_) {
      for (const int64_t size : {1, 4096, 20001}) {
        Case c;
        c.operands = {{"x", type, {size}, Role::output}};
        const RandomStream stream = {random_(), 3, 4};
        c.bind = [=](const Views& v) {
          return RandomNormal{.x = v["x"], .deviation = 0.02F, .stream = stream, .index = index};
        };
        expect_the_cpus(c);
      }
    }
  }
}

TEST_F(Exact, Masks) {
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
    for (const GlobalIndex& index : indices_) {
      const Shape shape = {37, 96};
      const Dropout dropout = {0.3F, {random_(), 3, 4}, index};
      Case c;
      c.operands = {{"x", type, shape},
                    {"y", type, shape, Role::output},
                    {"mask", DType::u8, shape, Role::output}};
      c.bind = [=](const Views& v) {
        return BiasDropoutAdd{.x = v["x"],
                              .bias = {},
                              .residual = {},
                              .y = v["y"],
                              .mask = v["mask"],
                              .dropout = dropout};
      };
      expect_the_cpus(c);
    }
  }
}

/// Ids that occur never, once and many times, in vocabularies of one and of two digits, and sums in
/// the order of positions.
/// dtable of ids in [1000, 1000 + vocabulary), a third of which are the same.
TEST_F(Exact, EmbeddingGradients) {
  struct Extent {
    int64_t rows, cols, vocabulary;
  };
  // The last one is sorted by several blocks, and a warp has as many positions as it may.
  for (const Extent of :
       {Extent{300, 264, 1}, {300, 264, 6}, {300, 264, 127}, {300, 264, 300}, {7000, 8, 300}}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
      constexpr int64_t first = 1000;
      Case c;
      c.operands = {{"ids", DType::i32, {of.rows}, Role::input, Draw::id, of.vocabulary},
                    {"dy", type, {of.rows, of.cols}},
                    {"dtable", accumulation_type(type), {of.vocabulary, of.cols}, Role::updated}};
      c.bind = [](const Views& v) {
        return EmbeddingBackward{
            .ids = v["ids"], .dy = v["dy"], .dtable = v["dtable"], .first = first};
      };
      Values before = random_values(c, test_seed());
      for (double& id : before.at("ids")) id = first + (random_() % 3 == 0 ? 0 : id);
      expect_the_cpus(c, before);
    }
  }
}

TEST_F(Exact, FillsOfEveryType) {
  for (const DType type : {DType::f32, DType::bf16, DType::f64, DType::u8, DType::i32}) {
    for (const int64_t size : {1, 3, 15, 64, 16385}) {
      Case c;
      c.operands = {{"x", type, {size}, Role::output}};
      c.bind = [](const Views& v) { return Fill{.x = v["x"], .value = 7}; };
      expect_the_cpus(c);
    }
  }
}

/// Four extents that no two of which are one, in rows that begin at 16 bytes, from one order to
/// another and with one that is repeated.
TEST_F(Exact, CopiesOfFourDimensions) {
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
    for (const DType to : {type, accumulation_type(type)}) {
      for (const bool accumulate : {false, true}) {
        const Shape shape{3, 5, 2, 40};
        Case c;
        c.operands = {{"x", type, {5, 3, 48}}, {"y", to, {2, 3, 5, 48}, Role::updated}};
        c.bind = [=](const Views& v) {
          return Copy{.x = v["x"].strided(8, shape, {48, 144, 0, 1}),
                      .y = v["y"].strided(8, shape, {240, 48, 720, 1}),
                      .accumulate = accumulate};
        };
        expect_the_cpus(c);
      }
    }
  }
}

/// Double rounding, by float32 on the way, would give another number half way between two.
TEST_F(Exact, ConversionsRoundOnce) {
  Case c;
  c.operands = {{"x", DType::f64, {6}}, {"y", DType::bf16, {6}, Role::output}};
  c.bind = [](const Views& v) { return Convert{.x = v["x"], .y = v["y"]}; };
  Values before = random_values(c, test_seed());
  before.at("x") = {
      1 + 0x1p-8 + 0x1p-40, -1 - 0x1p-8 - 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 0x1.ffffffffp127, -0.0,
      0x1p-140 + 0x1p-180};
  expect_the_cpus(c, before);
}

}  // namespace
}  // namespace frugal::kernels::table
