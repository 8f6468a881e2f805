#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// Writes Python's pickle format, protocol 2, of dictionaries, lists, texts and whole numbers. What
/// is written is one value after the other; a text that was written before is referred to.
class Pickle {
 public:
  Pickle();

  void number(int64_t value);
  void text(std::string_view value);
  /// Keys and values by turns, until it is closed.
  void open_dictionary();
  void close_dictionary() { bytes_ += 'u'; }
  void key(std::string_view name) { text(name); }
  void pair(std::string_view name, int64_t value);
  void pair(std::string_view name, std::string_view value);
  /// item() stands before each item.
  void open_list();
  void item();
  void close_list();
  /// A number by which refer() has the last value again.
  uint32_t remember();
  void refer(uint32_t number);

  /// The file, after one value.
  std::string take() &&;

 private:
  void little_endian(uint64_t value, int size);

  std::string bytes_;
  std::map<std::string, uint32_t, std::less<>> texts_;
  uint32_t remembered_ = 0;
  std::vector<int> items_;  ///< since the last batch, of each open list
};

}  // namespace frugal::harness
