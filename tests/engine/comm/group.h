#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/local.h"

namespace frugal::engine {

/// Runs `body` once per rank, each in a thread of its own.
inline void on_every_rank(Group& group, const std::function<void(Communicator&)>& body) {
  std::vector<std::jthread> threads;
  for (int r = 0; r < group.size(); ++r)
    threads.emplace_back([&, r] { body(group.communicator(r)); });
}

template <class T>
View view(std::vector<T>& values) {
  return {values.data(), dtype_of<T>, {static_cast<int64_t>(values.size())}};
}

/// Values of very different size, so that a sum in another order gives another result.
template <class T>
std::vector<T> random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-6, 6);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values)
    value = static_cast<T>(static_cast<float>(std::ldexp(normal(random), exponent(random))));
  return values;
}

/// The names of typed tests: f32 instead of 0.
struct TypeNames {
  template <class T>
  static std::string GetName(int /*index*/) {
    return std::string(name_of(dtype_of<T>));
  }
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace frugal::engine
