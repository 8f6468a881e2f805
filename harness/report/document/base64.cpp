#include "harness/report/document/base64.h"

#include <algorithm>
#include <cstdint>

namespace frugal::harness {

std::string base64(std::string_view bytes) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = i; j < i + 3; ++j)
      three = three << 8U | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    const size_t present = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 4; ++j) text += j > present ? '=' : digits[three >> (18 - 6 * j) & 63U];
  }
  return text;
}

}  // namespace frugal::harness
