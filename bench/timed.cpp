#include "bench/timed.h"

#include "harness/peaks/peak.h"

namespace frugal::bench {

OneDevice::OneDevice(const Target& target)
    : alone(one_rank(target)), device(alone->rank(0).device) {}

Buffer::Buffer(Device& device, DType type, const Shape& shape)
    : device_(device), view_(device.allocate(shape.size() * size_of(type)), type, shape) {
  if (type == DType::u8 || type == DType::i32) return;
  static uint32_t count = 0;
  device.execute(RandomNormal{.x = view_, .deviation = 1, .stream = {1, 2, ++count}, .index = {}});
}

}  // namespace frugal::bench
