#pragma once
#include <vector>

#include "engine/pass.h"

namespace frugal::engine {

/// Streams of the two directions of a link to the host, beside what is computed and each other.
namespace streams {
inline constexpr StreamSpec to_host{"to host"}, from_host{"from host"};
}  // namespace streams

/// Activations of a layer that are in the host's memory from the forward to the backward pass
/// (RunConfig::offload). They go there while the next layer computes, and come back while the layer
/// behind is in its backward pass, each way on a stream of its own. Tensors that share memory go
/// once, and share it again.
class Offloaded {
 public:
  /// Place of a layer's activations until its backward pass.
  enum class Where : uint8_t {
    host,    ///< those that the run offloads
    device,  ///< here: the run does not offload this layer, or needs it before any other
    nowhere  ///< there is no backward pass
  };

  Offloaded() = default;
  explicit Offloaded(Where where) : where_(where) {}

  /// Sends those that go; their tensors are empty until they are restored. Copying waits for what
  /// has been issued to compute them. The device has what the layer before has sent until here.
  void store(const Pass& pass, const KeptTensors& kept);
  /// Begins to bring them back to the device, if they are not there.
  void fetch(const Pass& pass);
  /// The tensors are what they were; fetched if they have not been. `kept` is as it was stored.
  void restore(const Pass& pass, const KeptTensors& kept);

 private:
  /// A tensor that went, of those that were stored.
  struct Part {
    size_t index;
    int64_t first_byte;
    View view;
  };
  /// Memory that went, and all tensors in it.
  struct Block {
    std::vector<Part> parts;
    Place place;           // to which it belongs
    Tensor on_host, here;  // [n] u8
  };
  static std::vector<Block> blocks_of(const RunConfig& config, const KeptTensors& kept);
  void send(const Pass& pass, const KeptTensors& kept);

  Where where_ = Where::host;
  std::vector<Block> blocks_;
  bool fetched_ = false;
  Event left_, arrived_;
};

}  // namespace frugal::engine
