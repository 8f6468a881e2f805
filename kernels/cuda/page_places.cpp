#include "kernels/cuda/page_places.h"

#include <algorithm>
#include <tuple>

namespace frugal::kernels::cuda {
namespace {

/// Blocks up to this size lie in one page.
constexpr int64_t small = PagePlaces::page / 2;

int64_t rounded(int64_t bytes) {
  constexpr int64_t step = PagePlaces::alignment;
  return (std::max<int64_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

/// Position of a block of several pages: in the last `head` bytes of one, then in whole ones, then
/// in the first bytes of one, which may be a whole one so far.
struct PagePlaces::Choice {
  Hole first, last;  // holes that are used; none: whole pages
  int64_t head = 0, tail = 0;
  int64_t whole = 0;   // pages that are taken as a whole
  int64_t wasted = 0;  // bytes between blocks

  bool better_than(const Choice& other) const {
    return std::tie(whole, wasted) < std::tie(other.whole, other.wasted);
  }
};

void PagePlaces::add(const Hole& h) {
  holes_[{h.number, h.begin}] = h.size;
  const Holes::value_type by_size{h.size, {h.number, h.begin}};
  all_.insert(by_size);
  if (h.begin == 0) beginnings_.insert(by_size);
  if (h.begin + h.size == page) ends_.insert(by_size);
}

void PagePlaces::remove(const Hole& h) {
  holes_.erase({h.number, h.begin});
  const Holes::value_type by_size{h.size, {h.number, h.begin}};
  for (Holes* const holes : {&all_, &beginnings_, &ends_}) holes->erase(by_size);
}

PagePlaces::Hole PagePlaces::smallest(const Holes& holes, int64_t size) {
  const auto found = holes.lower_bound({size, {-1, 0}});
  if (found == holes.end()) return {};
  return {found->second.first, found->second.second, found->first};
}

void PagePlaces::take_part(const Hole& hole, int64_t begin, int64_t size) {
  if (hole.size < page) remove(hole);
  if (begin > hole.begin) add({hole.number, hole.begin, begin - hole.begin});
  const int64_t end = begin + size, hole_end = hole.begin + hole.size;
  if (end < hole_end) add({hole.number, end, hole_end - end});
}

void PagePlaces::free_part(int number, int64_t begin, int64_t size) {
  Hole hole{number, begin, size};
  const auto after = holes_.find({number, begin + size});
  if (after != holes_.end()) {
    const Hole next{number, begin + size, after->second};
    remove(next);
    hole.size += next.size;
  }
  const auto behind = holes_.lower_bound({number, begin});
  if (behind != holes_.begin()) {
    const auto& [place, length] = *std::prev(behind);
    if (place.first == number && place.second + length == begin) {
      const Hole before{number, place.second, length};
      remove(before);
      hole = {number, before.begin, before.size + hole.size};
    }
  }
  if (hole.size == page)
    free_.insert(number);
  else
    add(hole);
}

int PagePlaces::take_page() {
  for (std::set<int>* const pages : {&free_, &absent_})
    if (!pages->empty()) return pages->extract(pages->begin()).value();
  return next_++;
}

/// Chooses as few whole pages as possible, and then as little between blocks.
PagePlaces::Choice PagePlaces::choose(int64_t size) const {
  const auto with_tail = [&](const Hole& first, int64_t head) {
    Choice c;
    c.first = first;
    c.head = head;
    c.whole = (size - head) / page;
    c.tail = (size - head) % page;
    if (c.tail == 0) return c;
    c.last = smallest(beginnings_, c.tail);
    if (c.last.number < 0)
      ++c.whole;
    else
      c.wasted = c.last.size - c.tail;
    return c;
  };
  Choice best = with_tail({}, 0);
  const auto consider = [&](const Choice& c) {
    if (c.better_than(best)) best = c;
  };
  int64_t last_size = 0;
  for (const auto& [head, place] : ends_) {
    if (head < size && head != last_size)
      consider(with_tail({place.first, place.second, head}, head));
    last_size = head;
  }
  // A block that ends where a page does.
  const int64_t rest = size % page;
  const Hole end = rest > 0 ? smallest(ends_, rest) : Hole{};
  if (end.number >= 0) consider({end, {}, rest, 0, size / page, end.size - rest});
  return best;
}

PagePlaces::Place PagePlaces::take_choice(const Choice& c, int64_t size) {
  Place place;
  if (c.head > 0) {
    take_part(c.first, page - c.head, c.head);
    place.pages.push_back(c.first.number);
    place.offset = page - c.head;
  }
  for (int64_t left = size - c.head; left >= page; left -= page) place.pages.push_back(take_page());
  if (c.tail == 0) return place;
  const Hole last = c.last.number >= 0 ? c.last : Hole{take_page(), 0, page};
  take_part(last, 0, c.tail);
  place.pages.push_back(last.number);
  return place;
}

PagePlaces::Place PagePlaces::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  Hole hole = smallest(all_, size);
  if (hole.number < 0 && size > small) return take_choice(choose(size), size);
  if (hole.number < 0) hole = {take_page(), 0, page};
  // What is left stays at the beginning of a page or at its end.
  const bool at_end = hole.begin == 0 && hole.size < page;
  const int64_t begin = at_end ? hole.size - size : hole.begin;
  take_part(hole, begin, size);
  return {{hole.number}, begin};
}

void PagePlaces::give_back(const Place& place, int64_t bytes) {
  int64_t begin = place.offset, left = rounded(bytes);
  for (const int number : place.pages) {
    const int64_t here = std::min(left, page - begin);
    free_part(number, begin, here);
    left -= here;
    begin = 0;
  }
}

std::vector<int> PagePlaces::drop_free() {
  std::vector<int> dropped(free_.begin(), free_.end());
  absent_.merge(free_);
  free_.clear();
  return dropped;
}

void PagePlaces::drop(int number) {
  free_.erase(number);
  absent_.insert(number);
}

}  // namespace frugal::kernels::cuda
