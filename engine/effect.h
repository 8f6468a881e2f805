#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "engine/memory/tensor.h"
#include "engine/program.h"

namespace frugal::engine {

struct RankAt;

/// Tensors of an imitated program, beside those that its technique needs: each until an event, or
/// until their owner goes.
class Extras {
 public:
  void hold(Tensor tensor, ModelEvent until) { held_.emplace_back(until, std::move(tensor)); }
  /// Releases those that are held until this event.
  void end(ModelEvent event) {
    std::erase_if(held_, [event](const auto& one) { return one.first == event; });
  }
  /// Shares of those that are held until this event.
  Extras until(ModelEvent event) const;
  /// Tensors in the order in which they came. Some may be in the host's memory meanwhile.
  std::vector<Tensor*> tensors();

 private:
  std::vector<std::pair<ModelEvent, Tensor>> held_;
};

/// An event, and what an effect may do there: replace or release x, and hold tensors in `extras`.
struct Occasion {
  const RankAt& at;
  Tensor& x;
  Extras& extras;
  Tensor* other;     ///< a second tensor that some events are about
  ModelEvent until;  ///< where the effect ends
};

/// Something that a program does at one event and undoes at another.
struct Effect {
  ModelEvent at, until;
  std::function<void(const Occasion&)> does;
  bool last = false;  ///< behind all others at this event, which would not find x
};

/// Effects that programs have in common.
namespace effects {

enum class Counted : uint8_t { workspace, activation };
using When = bool (*)(const RankAt&);

/// x stays in memory.
Effect hold(ModelEvent at, ModelEvent until, Counted counted = Counted::workspace);
/// x goes; otherwise it stays until the end of the function that announces the event.
Effect release(ModelEvent at);
/// x is replaced by a copy, or by itself in accumulation type; the original stays until `until`.
Effect copy(ModelEvent at, ModelEvent until);
Effect widen(ModelEvent at, ModelEvent until);
/// Copies of x are beside it.
Effect copies_beside(ModelEvent at, ModelEvent until, int count = 1,
                     Counted counted = Counted::workspace);
/// Memory of x's shape is beside it, of its own type or of accumulation type.
Effect memory_beside(ModelEvent at, ModelEvent until, int count = 1);
Effect wide_memory_beside(ModelEvent at, ModelEvent until, int count = 1);
/// x is replaced by other memory of its shape: what would be written over stays.
Effect elsewhere(ModelEvent at);
/// A kernel moves so many bytes for each byte of x, in that many launches: time of a described
/// machine, without memory. Devices that compute do not run it.
Effect kernel(ModelEvent at, double bytes, int launches);
/// `effect` where a condition holds.
Effect only(When when, Effect effect);

}  // namespace effects
}  // namespace frugal::engine
