#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace frugal::kernels::cuda {

/// Places of blocks in pages of 2 MiB, the least that a GPU maps. Pages have numbers; those of a
/// block need not be neighbours, because it sees them one behind the other. A block begins where
/// another has left the end of a page, and ends where one has left the beginning, so that blocks
/// share pages at both ends. Where it lies follows from what is free alone: the same requests from
/// the same state get the same places.
class PagePlaces {
 public:
  static constexpr int64_t page = int64_t{2} << 20, alignment = 512;

  struct Place {
    std::vector<int> pages;  ///< a small block has one
    int64_t offset = 0;      ///< of the block's first byte in the first page
  };
  /// Takes pages that are there before any that are not.
  Place take(int64_t bytes);
  void give_back(const Place& place, int64_t bytes);
  /// Pages without a block. They are not there from then on.
  std::vector<int> drop_free();
  /// Drops one that could not be had.
  void drop(int number);

 private:
  struct Hole {
    int number = -1;  ///< of its page; −1: none
    int64_t begin = 0, size = 0;
  };
  struct Choice;
  void add(const Hole& hole);
  void remove(const Hole& hole);
  /// Size of a hole, or of a page that is free as a whole.
  void take_part(const Hole& hole, int64_t begin, int64_t size);
  void free_part(int number, int64_t begin, int64_t size);
  int take_page();
  /// The smallest of these that is large enough.
  using Holes = std::set<std::pair<int64_t, std::pair<int, int64_t>>>;  // by size
  static Hole smallest(const Holes& holes, int64_t size);
  Choice choose(int64_t size) const;
  Place take_choice(const Choice& choice, int64_t size);

  std::set<int> free_, absent_;                       // whole pages
  int next_ = 0;                                      // the first number that no page has had
  std::map<std::pair<int, int64_t>, int64_t> holes_;  // of pages with blocks: by place, their size
  Holes all_, beginnings_, ends_;                     // those at the beginning or the end of a page
};

}  // namespace frugal::kernels::cuda
