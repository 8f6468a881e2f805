#pragma once
#include "kernels/cuda/ops/block.cuh"

/// Matrices as tiles, a block each. A thread keeps to a pack of columns and goes from row to row:
/// what belongs to a column it reads, or adds up, once.
namespace frugal::kernels::cuda {

inline constexpr int tile_threads = 256;

/// Division of a matrix among blocks: of its rows, in groups of as many consecutive ones each, and
/// its columns, by their number and that of multiprocessors only.
struct Tiles {
  int64_t rows, cols;     ///< rows of a group
  int64_t chunks, chunk;  ///< tiles of a group one below the other, and their rows
  int across;             ///< tiles side by side
  int width;              ///< threads side by side, a power of two; the others are in rows below
  int64_t blocks;

  Tiles(const Launch& on, int64_t groups, int64_t all_rows, int64_t cols)
      : rows(all_rows / groups), cols(cols) {
    const int64_t packs = (cols + pack - 1) / pack;
    width = 1;
    while (width < packs && width < warp) width *= 2;
    across = static_cast<int>((packs + width - 1) / width);
    // Enough blocks to fill the device several times; four rows per thread, to be worth a block.
    const int64_t wanted = on.multiprocessors * 16 / (groups * across) + 1;
    const int64_t least = int64_t{4} * (tile_threads / width);
    chunk = (rows + wanted - 1) / wanted;
    if (chunk < least) chunk = least;
    chunks = (rows + chunk - 1) / chunk;
    blocks = groups * chunks * across;
  }
};

/// Part of a matrix that is this block's and this thread's.
struct Tile {
  int64_t piece, group;  ///< the tile's number without those beside it; the group it belongs to
  int64_t row, end;      ///< this thread's first row, and the tile's last one + 1
  int64_t col, count;    ///< this thread's columns; none where count is not positive
  int64_t first_col;     ///< of the tile

  __device__ explicit Tile(const Tiles& of) {
    const auto across = static_cast<unsigned>(of.across);
    const auto width = static_cast<unsigned>(of.width), chunks = static_cast<unsigned>(of.chunks);
    piece = blockIdx.x / across;
    group = blockIdx.x / across / chunks;
    const int64_t begin = (piece - group * of.chunks) * of.chunk;
    end = group * of.rows + (begin + of.chunk < of.rows ? begin + of.chunk : of.rows);
    row = group * of.rows + begin + threadIdx.x / width;
    first_col = int64_t{blockIdx.x % across} * of.width * pack;
    col = first_col + threadIdx.x % width * pack;
    count = of.cols - col < pack ? of.cols - col : pack;
  }
};

/// use(row, fetch(row)) for this thread's rows of the tile, `at_once` of them fetched before the
/// first is used.
template <int at_once, class Fetch, class Use>
__device__ inline void each_row(const Tiles& of, const Tile& tile, const Fetch& fetch,
                                const Use& use) {
  if (tile.count <= 0) return;
  const int64_t step = tile_threads / of.width;
  for (int64_t row = tile.row; row < tile.end; row += at_once * step) {
    decltype(fetch(row)) held[at_once]{};
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (row + u * step < tile.end) held[u] = fetch(row + u * step);
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (row + u * step < tile.end) use(row + u * step, held[u]);
  }
}

}  // namespace frugal::kernels::cuda
