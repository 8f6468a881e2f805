#include "harness/report/formats/pickle.h"

#include <limits>
#include <utility>

namespace frugal::harness {
namespace {

/// Readers hold all items of a batch at once; Python writes as many.
constexpr int items_of_a_batch = 1000;

}  // namespace

Pickle::Pickle() : bytes_("\x80\x02") {}

void Pickle::little_endian(uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xff);
}

void Pickle::number(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value < 256) {
    bytes_ += 'K';
    little_endian(bits, 1);
  } else if (value >= 0 && value < 65536) {
    bytes_ += 'M';
    little_endian(bits, 2);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    bytes_ += 'J';
    little_endian(bits, 4);
  } else {
    bytes_ += "\x8a\x08";
    little_endian(bits, 8);
  }
}

void Pickle::text(std::string_view value) {
  if (const auto known = texts_.find(value); known != texts_.end()) {
    refer(known->second);
    return;
  }
  bytes_ += 'X';
  little_endian(value.size(), 4);
  bytes_ += value;
  texts_.emplace(value, remember());
}

void Pickle::open_dictionary() { bytes_ += "}("; }

void Pickle::pair(std::string_view name, int64_t value) {
  text(name);
  number(value);
}

void Pickle::pair(std::string_view name, std::string_view value) {
  text(name);
  text(value);
}

void Pickle::open_list() {
  bytes_ += "](";
  items_.push_back(0);
}

void Pickle::item() {
  if (++items_.back() <= items_of_a_batch) return;
  bytes_ += "e(";
  items_.back() = 1;
}

void Pickle::close_list() {
  bytes_ += 'e';
  items_.pop_back();
}

uint32_t Pickle::remember() {
  bytes_ += 'r';
  little_endian(remembered_, 4);
  return remembered_++;
}

void Pickle::refer(uint32_t number) {
  const bool small = number < 256;
  bytes_ += small ? 'h' : 'j';
  little_endian(number, small ? 1 : 4);
}

std::string Pickle::take() && {
  bytes_ += '.';
  return std::move(bytes_);
}

}  // namespace frugal::harness
