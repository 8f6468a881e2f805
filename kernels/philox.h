#pragma once
#include <array>
#include <cstdint>

#include "kernels/dropout.h"

namespace frugal::kernels {

/// Philox4x32-10: four random words as a function of a counter and a key. Salmon, Moraes, Dror,
/// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.
struct Philox {
  using Words = std::array<uint32_t, 4>;
  static constexpr uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
  static constexpr uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;
  static constexpr int rounds = 10;

  /// The two words that each round takes.
  using Keys = std::array<std::array<uint32_t, 2>, rounds>;
  static constexpr Keys keys(uint32_t key0, uint32_t key1) {
    Keys all{};
    for (auto& of_round : all) {
      of_round = {key0, key1};
      key0 += weyl0;
      key1 += weyl1;
    }
    return all;
  }

  static constexpr Words generate(Words c, const Keys& keys) {
    for (const auto& key : keys) {
      const uint64_t p0 = uint64_t{multiplier0} * c[0];
      const uint64_t p1 = uint64_t{multiplier1} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    }
    return c;
  }
  static constexpr Words generate(Words c, uint32_t key0, uint32_t key1) {
    return generate(c, keys(key0, key1));
  }

  /// The words of a group of a stream.
  static constexpr Words generate(const RandomStream& stream, uint64_t group) {
    return generate(stream, keys(stream), group);
  }
  /// Generates with keys(stream), for those who make many.
  static constexpr Words generate(const RandomStream& stream, const Keys& keys, uint64_t group) {
    return generate({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), stream.site,
                     stream.draw},
                    keys);
  }
  static constexpr Keys keys(const RandomStream& stream) {
    return keys(static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32));
  }
};

// Known answers that the authors publish with their library Random123.
static_assert(Philox::generate({0, 0, 0, 0}, 0, 0) ==
              Philox::Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
static_assert(Philox::generate({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u) ==
              Philox::Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
static_assert(Philox::generate({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u,
                               0x299f31d0u) ==
              Philox::Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});

}  // namespace frugal::kernels
