#pragma once
#include <algorithm>

#include "kernels/cpu/simd/philox.h"

/// Elements made of random words, where the serial run has them.
namespace frugal::kernels::FRUGAL_SIMD {

/// Elements of a stream, of which a group makes `per_group`, in order: make(words, to) writes those
/// of RandomWords.
template <int per_group, class T, class F>
class RandomRun {
 public:
  /// Elements [at, at + count) of the serial run, none of which has a group number with another
  /// upper half than the first.
  RandomRun(const RandomStream& stream, uint64_t at, int64_t count, T* to, const F& make)
      : groups_(stream, static_cast<uint32_t>(at / per_group >> 32)),
        at_(at),
        left_(count),
        to_(to),
        make_(make) {}

  void run() {
    if (const auto skip = static_cast<int64_t>(at_ % per_group); skip != 0) part(skip);
    whole<most_together>();
    if (left_ > 0) part(0);
  }

 private:
  static constexpr int64_t at_once = groups_at_once * per_group;
  // As many as were fastest, though the state of 8 takes all registers.
  static constexpr int most_together = vector_bytes == 64 ? 8 : 2;

  void advance(int64_t n) {
    at_ += static_cast<uint64_t>(n);
    to_ += n;
    left_ -= n;
  }

  template <int together>
  void whole() {
    for (; left_ >= together * at_once; advance(together * at_once)) {
      RandomWords words[together];
      groups_.generate(static_cast<uint32_t>(at_ / per_group), words);
      for (int i = 0; i < together; ++i) make_(words[i], to_ + i * at_once);
    }
    if constexpr (together > 1) whole<together / 2>();
  }

  /// Fewer than are made at once, without the first `skip` of them.
  void part(int64_t skip) {
    RandomWords words[1];
    groups_.generate(static_cast<uint32_t>(at_ / per_group), words);
    T made[at_once];
    make_(words[0], made);
    const int64_t n = std::min(left_, at_once - skip);
    std::copy_n(made + skip, n, to_);
    advance(n);
  }

  Groups groups_;
  uint64_t at_;
  int64_t left_;
  T* to_;
  const F& make_;
};

/// Elements [at, at + count) of the serial run.
template <int per_group, class T, class F>
void random_run(const RandomStream& stream, uint64_t at, int64_t count, T* to, const F& make) {
  while (count > 0) {
    constexpr uint64_t elements = (uint64_t{1} << 32) * per_group;  // of an upper half
    const auto n = std::min(count, static_cast<int64_t>(elements - at % elements));
    RandomRun<per_group, T, F>(stream, at, n, to, make).run();
    at += static_cast<uint64_t>(n);
    to += n;
    count -= n;
  }
}

/// Elements of the serial run that are the local ones [first, first + count).
template <int per_group, class T, class F>
void random_elements(const RandomStream& stream, const GlobalIndex& index, int64_t first,
                     int64_t count, T* to, const F& make) {
  for (int64_t done = 0; done < count;) {
    const int64_t element = first + done;
    const int64_t n = std::min(count - done, index.run - element % index.run);
    random_run<per_group>(stream, static_cast<uint64_t>(index.at(element)), n, to + done, make);
    done += n;
  }
}

}  // namespace frugal::kernels::FRUGAL_SIMD
