#pragma once
#include <cstdint>
#include <string>

#include "engine/config.h"
#include "engine/optimizer/train_config.h"

namespace frugal::testing {
using namespace engine;

/// A small run that is drawn at random.
struct Combination {
  RunConfig config;
  TrainConfig train;

  /// In words, for who wants to draw it again.
  std::string text() const;
};

/// The one of this number for so many ranks. Those of one seed have, by turns, every way to divide
/// the ranks, every schedule, every optimizer and every type.
Combination draw(int ranks, int number, uint64_t seed);

}  // namespace frugal::testing
