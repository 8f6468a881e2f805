// Memory for blocks of all sizes: where they lie, and what of it the system has given.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/memory.h"

namespace frugal::kernels {
namespace {

struct Block {
  unsigned char* address;
  int64_t bytes;
  unsigned char content;
};

/// An arena, and every block that was taken from it.
class Blocks {
 public:
  ~Blocks() {
    while (!all_.empty()) give_back(all_.size() - 1);
  }
  void take(int64_t bytes) {
    const Arena::Place place = arena_.find(bytes);
    const int64_t before = arena_.backed_bytes();
    auto* const address = static_cast<unsigned char*>(arena_.take(place, bytes));
    EXPECT_EQ(arena_.backed_bytes(), before + place.unbacked);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0);
    all_.push_back({address, bytes, static_cast<unsigned char>(++count_)});
    std::memset(address, all_.back().content, static_cast<size_t>(bytes));
    in_use_ += Arena::room_for(bytes);
    most_ = std::max(most_, in_use_);
  }
  /// Nobody else has written to it.
  void give_back(size_t index) {
    const Block block = all_[index];
    EXPECT_TRUE(std::all_of(block.address, block.address + block.bytes,
                            [&](unsigned char byte) { return byte == block.content; }));
    arena_.give_back(block.address, block.bytes);
    in_use_ -= Arena::room_for(block.bytes);
    all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  Arena& arena() { return arena_; }
  size_t count() const { return all_.size(); }
  int64_t in_use() const { return in_use_; }
  int64_t most() const { return most_; }

 private:
  Arena arena_;
  std::vector<Block> all_;
  int64_t in_use_ = 0, most_ = 0;
  int count_ = 0;
};

TEST(Arena, BlocksKeepWhatIsWrittenToThem) {
  std::mt19937 random(7);
  Blocks blocks;
  for (int i = 0; i < 3000; ++i) {
    const size_t wanted = (i / 500) % 2 == 0 ? 40 : 10;
    if (blocks.count() < wanted)
      blocks.take(static_cast<int64_t>(random() % 5000));
    else
      blocks.give_back(random() % blocks.count());
    const bool released = i % 97 == 0;
    if (released) blocks.arena().release();
    const int64_t in_holes = blocks.arena().backed_hole_bytes();
    EXPECT_EQ(blocks.arena().backed_bytes() - in_holes, blocks.in_use());
    EXPECT_TRUE(!released || in_holes == 0);
  }
  EXPECT_LT(blocks.arena().backed_bytes(), 2 * blocks.most());
}

/// The backward pass gives back in the reverse order, with temporary blocks in between.
TEST(Arena, AStackOfBlocksNeedsNoMoreThanItsPeak) {
  Blocks blocks;
  for (int step = 0; step < 3; ++step) {
    for (int64_t layer = 0; layer < 8; ++layer) {
      blocks.take(1000 + 100 * layer);
      blocks.take(4000);
      blocks.give_back(blocks.count() - 1);
    }
    while (blocks.count() > 0) blocks.give_back(blocks.count() - 1);
  }
  EXPECT_EQ(blocks.arena().backed_bytes(), blocks.most());
}

TEST(Arena, HolesThatMeetAreOne) {
  Blocks blocks;
  for (int i = 0; i < 4; ++i) blocks.take(640);
  const int64_t before = blocks.arena().backed_bytes();
  blocks.give_back(0);
  blocks.give_back(1);
  blocks.give_back(0);  // the one between them
  blocks.take(3 * Arena::room_for(640) - Arena::room_for(1) + 1);
  EXPECT_EQ(blocks.arena().backed_bytes(), before);
}

TEST(Arena, TheSmallestHoleThatHasRoomIsTaken) {
  Blocks blocks;
  for (const int64_t bytes : {2000, 64, 1000, 64}) blocks.take(bytes);
  blocks.give_back(0);
  blocks.give_back(1);
  const int64_t before = blocks.arena().backed_bytes();
  blocks.take(1000);
  blocks.take(2000);
  EXPECT_EQ(blocks.arena().backed_bytes(), before);
}

TEST(Arena, WhereThereAreNoMoreAddressesNothingIsFound) {
  Arena arena;
  EXPECT_EQ(arena.find(int64_t{1} << 60).range.size(), 0);
}

TEST(Arena, BlocksOfAnySizeHaveAPlace) {
  Arena arena;
  const int64_t bytes = Arena::stretch + (int64_t{1} << 20);
  const Arena::Place place = arena.find(bytes);
  ASSERT_GE(place.range.size(), bytes);
  EXPECT_EQ(place.unbacked, place.range.size());
}

}  // namespace
}  // namespace frugal::kernels
