#pragma once
#include "kernels/cuda/ops/pack.cuh"
#include "kernels/philox.h"

/// Dropout's decisions, eight at a time: those of the CPU, bit for bit.
namespace frugal::kernels::cuda {

/// index.at(element); without its division where there is but one run.
__device__ inline int64_t position(const GlobalIndex& index, int64_t element) {
  return index.run == GlobalIndex{}.run ? index.offset + element : index.at(element);
}

/// True where eight local elements from a multiple of eight on are eight such of the serial run,
/// too.
inline bool keeps_packs(const GlobalIndex& index) {
  const bool whole = index.run == GlobalIndex{}.run;  // has no end that could lie within a pack
  return index.offset % pack == 0 && (whole || index.run % pack == 0) && index.stride % pack == 0;
}

/// Dropout as a kernel takes it.
template <class A>
struct Keep {
  RandomStream stream;
  Philox::Keys keys{};  // in constant memory they take no registers
  GlobalIndex index;
  uint32_t threshold = 0;
  A scale = 1;
  /// True where eight local elements from a multiple of eight on are one group of the generator.
  bool in_groups = false;

  Keep() = default;
  explicit Keep(const Dropout& dropout)
      : stream(dropout.stream),
        keys(Philox::keys(dropout.stream)),
        index(dropout.index),
        threshold(dropout.threshold()),
        scale(static_cast<A>(dropout.keep_scale())),
        in_groups(keeps_packs(index)) {}
};

/// The group of the generator that local elements first to first + 7 are, where they are one:
/// keep.in_groups and first a multiple of eight.
template <class A>
__device__ inline uint64_t group_of(const Keep<A>& keep, int64_t first) {
  return static_cast<uint64_t>(position(keep.index, first)) / pack;
}

/// Bit e says whether element e of a group is kept.
template <class A>
__device__ inline uint32_t decide_group(const Keep<A>& keep, uint64_t group) {
  const Philox::Words words = Philox::generate(keep.stream, keep.keys, group);
  uint32_t kept = 0;
#pragma unroll
  for (int e = 0; e < pack; ++e)
    kept |= ((words[e / 2] >> (e % 2 * 16) & 0xffffU) >= keep.threshold ? 1U : 0U) << e;
  return kept;
}

/// Bit e says whether local element first + e is kept.
template <class A>
__device__ inline uint32_t decide(const Keep<A>& keep, int64_t first) {
  if (keep.in_groups && first % pack == 0) return decide_group(keep, group_of(keep, first));
  uint32_t kept = 0;
  Philox::Words words{};
  uint64_t made = ~uint64_t{0};
#pragma unroll 1  // else it takes more registers than all the rest
  for (int e = 0; e < pack; ++e) {
    const auto element = static_cast<uint64_t>(position(keep.index, first + e));
    if (element / pack != made) {
      made = element / pack;
      words = Philox::generate(keep.stream, keep.keys, made);
    }
    const auto half = static_cast<uint32_t>(element % pack);
    const uint32_t word = half < 2   ? words[0]
                          : half < 4 ? words[1]
                          : half < 6 ? words[2]
                                     : words[3];
    kept |= ((word >> (half % 2 * 16) & 0xffffU) >= keep.threshold ? 1U : 0U) << e;
  }
  return kept;
}

/// The bytes of a stored mask, one for each element, 1 = kept.
template <bool wide>
__device__ inline uint2 fetch_mask(const uint8_t* mask, int64_t count) {
  if constexpr (wide) {
    return *reinterpret_cast<const uint2*>(mask);
  } else {
    uint2 bytes{0, 0};
#pragma unroll
    for (int e = 0; e < pack; ++e)
      (e < 4 ? bytes.x : bytes.y) |= (e < count && mask[e] != 0 ? 1U : 0U) << (e % 4 * 8);
    return bytes;
  }
}
/// The decisions in them.
__device__ inline uint32_t kept_in(uint2 bytes) {
  uint32_t kept = 0;
#pragma unroll
  for (int e = 0; e < pack; ++e) kept |= ((e < 4 ? bytes.x : bytes.y) >> (e % 4 * 8) & 1U) << e;
  return kept;
}
template <bool wide>
__device__ inline uint32_t read_mask(const uint8_t* mask, int64_t count) {
  return kept_in(fetch_mask<wide>(mask, count));
}

template <bool wide>
__device__ inline void write_mask(uint8_t* mask, int64_t count, uint32_t kept) {
  if constexpr (wide) {
    uint2 bytes{0, 0};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      bytes.x |= (kept >> e & 1U) << (8 * e);
      bytes.y |= (kept >> (e + 4) & 1U) << (8 * e);
    }
    *reinterpret_cast<uint2*>(mask) = bytes;
  } else {
    for (int e = 0; e < pack; ++e)
      if (e < count) mask[e] = static_cast<uint8_t>(kept >> e & 1U);
  }
}

/// x after dropout: scaled, or 0 even where x is not a number.
template <class A>
__device__ inline void apply(uint32_t kept, A scale, A (&x)[pack]) {
#pragma unroll
  for (int e = 0; e < pack; ++e) x[e] = (kept >> e & 1U) != 0 ? x[e] * scale : A{0};
}

}  // namespace frugal::kernels::cuda
