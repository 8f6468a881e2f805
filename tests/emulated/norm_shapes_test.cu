// How blocks of a norm's backward pass hold rows, on an H100, on an A100 and where there is little
// shared memory; and that docs/cuda.md says so.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "kernels/cuda/ops/norm.cuh"
#include "tests/support/source_dir.h"

namespace frugal::kernels::cuda {
namespace {

constexpr size_t kibibyte = 1024, h100 = 227 * kibibyte, a100 = 163 * kibibyte;

template <bool centred, class T>
HeldShape shape_of(int64_t cols, size_t shared_memory, bool adds = false) {
  const int64_t all = cols / pack;
  const auto packs = HeldPacks<centred, T>::of(all);
  const int resident = HeldPacks<centred, T>::resident(packs);
  Launch on;
  on.shared_memory = shared_memory;
  switch (packs) {
    case 1:
      return held_shape<1, T>(all, resident, adds, on);
    case 2:
      return held_shape<2, T>(all, resident, adds, on);
    case 3:
      return held_shape<3, T>(all, resident, adds, on);
    default:
      return held_shape<4, T>(all, resident, adds, on);
  }
}

/// Warps of a multiprocessor, and KiB of x and dy that it has on their way.
std::string in_flight(const HeldShape& shape, int64_t cols) {
  const int64_t rows = shape.teams * shape.blocks;
  return fmt::format("{} / {}", rows * shape.width / warp,
                     rows * shape.ahead * cols * 2 * static_cast<int64_t>(sizeof(Bf16)) / 1024);
}

TEST(NormShapes, AreAsThePageSays) {
  std::stringstream page;
  page << std::ifstream(testing::source_dir() + "/docs/cuda.md").rdbuf();
  const auto expect_on_page = [&](const std::string& begin, const std::string& end) {
    std::string line;
    for (std::istringstream lines(page.str()); std::getline(lines, line);)
      if (line.starts_with("| " + begin)) break;
    EXPECT_THAT(line, ::testing::EndsWith("| " + end + " |")) << begin;
  };
  for (const bool adds : {false, true}) {
    for (const auto& [begin, cols] : {std::pair<std::string, int64_t>{"128 (heads)", 128},
                                      {"768 ", 768},
                                      {"1600 ", 1600},
                                      {"4096 ", 4096},
                                      {"6144, ", 6144},
                                      {"6144, 12,288 ", 12288}}) {
      expect_on_page(begin, in_flight(shape_of<true, Bf16>(cols, h100, adds), cols));
      expect_on_page(begin, in_flight(shape_of<false, Bf16>(cols, h100, adds), cols));
    }
    expect_on_page("20,480, RMSNorm", in_flight(shape_of<false, Bf16>(20480, h100, adds), 20480));
    EXPECT_EQ((shape_of<true, Bf16>(20480, h100, adds).ahead), 0);
  }
}

TEST(NormShapes, HaveRowsOnTheirWayAsFarAsSharedMemoryReaches) {
  for (const int64_t cols : {128, 768, 1600, 4096, 6144, 12288, 16384}) {
    for (const bool adds : {false, true}) {
      EXPECT_GE((shape_of<true, Bf16>(cols, a100, adds).ahead), 1) << cols;
      EXPECT_EQ((shape_of<true, Bf16>(cols, 16 * kibibyte, adds).ahead), 0) << cols;
      for (const size_t memory : {h100, a100, 99 * kibibyte, 48 * kibibyte}) {
        const HeldShape shape = shape_of<true, Bf16>(cols, memory, adds);
        if (shape.ahead == 0) continue;
        EXPECT_LE((shape.shared + 1536) * static_cast<size_t>(shape.blocks), memory + kibibyte);
        EXPECT_LE(shape.width * shape.teams * shape.blocks, cols <= 256 ? 1024 : 512);
      }
    }
  }
  EXPECT_EQ((shape_of<true, Bf16>(16392, h100).ahead), 0) << "more than 512 threads";
  EXPECT_EQ((shape_of<false, Bf16>(20488, h100).ahead), 0) << "more than 640 threads";
  EXPECT_GE((shape_of<true, float>(8192, a100).ahead), 1);
}

}  // namespace
}  // namespace frugal::kernels::cuda
