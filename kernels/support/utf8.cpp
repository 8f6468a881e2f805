#include "kernels/support/utf8.h"

#include <cstdint>

namespace frugal::kernels {
namespace {

/// How many bytes a character has that begins so, and the lowest and highest second one; 0 bytes
/// where none begins so.
struct Beginning {
  size_t bytes;
  uint8_t low, high;
};

Beginning beginning(uint8_t first) {
  if (first < 0x80) return {1, 0, 0};
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};  // shorter otherwise
  if (first == 0xED) return {3, 0x80, 0x9F};  // a half of a pair of UTF-16 otherwise
  if (first < 0xF0) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};  // beyond U+10FFFF otherwise
  return {0, 0, 0};
}

}  // namespace

std::optional<size_t> first_not_utf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const Beginning begins = beginning(byte(i));
    if (begins.bytes == 0 || i + begins.bytes > text.size()) return i;
    for (size_t k = 1; k < begins.bytes; ++k) {
      const uint8_t low = k == 1 ? begins.low : 0x80, high = k == 1 ? begins.high : 0xBF;
      if (byte(i + k) < low || byte(i + k) > high) return i;
    }
    i += begins.bytes;
  }
  return std::nullopt;
}

}  // namespace frugal::kernels
