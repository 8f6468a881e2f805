#pragma once
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "engine/comm/activity.h"
#include "engine/comm/communicator.h"
#include "engine/comm/groups.h"
#include "engine/comm/tasks.h"
#include "engine/config.h"
#include "engine/effect.h"
#include "engine/memory/parameter_store.h"

namespace frugal::engine {

/// A rank's communicators, by the names of the groups (FRUGAL_GROUPS); it is alone in those that a
/// run does not need.
struct Communicators {
#define FRUGAL_GROUP(NAME, ...) Communicator& NAME;
  FRUGAL_GROUPS(FRUGAL_GROUP)
#undef FRUGAL_GROUP

  /// Asks `of` for the communicator of each GroupSpec.
  template <class Of>
  static Communicators from(Of of) {
#define FRUGAL_GROUP(NAME, ...) of(group::NAME),
    return {FRUGAL_GROUPS(FRUGAL_GROUP)};
#undef FRUGAL_GROUP
  }
  std::array<Communicator*, all_groups.size()> all() const {
#define FRUGAL_GROUP(NAME, ...) &NAME,
    return {FRUGAL_GROUPS(FRUGAL_GROUP)};
#undef FRUGAL_GROUP
  }
};

/// Activations of one layer on their way to the host's memory (engine/model/offloaded.h).
struct OffloadInFlight {
  std::vector<Tensor> sources;
  Event end;
};

/// Sum of FLOPs, added one by one, those of a repetition too: a sum of doubles depends on its
/// order.
class FlopCounter {
 public:
  /// Counter that remembers what it adds.
  static FlopCounter remembering() {
    FlopCounter counter;
    counter.added_.emplace();
    return counter;
  }

  double total() const { return total_; }
  void add(double flops) {
    total_ += flops;
    if (added_ && flops != 0) added_->push_back(flops);
  }
  /// All that the other one remembers.
  void add(const FlopCounter& other) {
    for (const double flops : other.added_.value()) add(flops);
  }

 private:
  double total_ = 0;
  std::optional<std::vector<double>> added_;
};

/// Member of a run: its processor, its memory, and the groups it computes with.
class Rank {
 public:
  Rank(int index, Device& device, const Communicators& groups, const RunConfig& config,
       Activity& activity)
      : index(index),
        device(device),
        activity(activity),
        groups(groups),
        tensor_group(groups.tensor),
        config(config),
        ledger(device),
        host(device, Ledger::Where::host) {
    if (for_new()) for_new()(*this);
  }

  /// Called for every new rank; empty: nothing. Serves tests (tests/faulty), which must not find a
  /// rank to have something happen to it.
  static std::function<void(Rank&)>& for_new() {
    static std::function<void(Rank&)> done;
    return done;
  }

  const int index;  ///< among the cluster's local ranks
  Device& device;
  Activity& activity;
  const Communicators groups;
  Communicator& tensor_group;
  const RunConfig config;

  int stage() const { return groups.stages.rank(); }
  int replica() const { return groups.data.rank(); }
  /// True where no other rank of its stage comes before it; absent ranks do not.
  bool first_of_stage() const {
    const auto first = [](const Communicator& group) {
      return group.rank() == 0 || !group.whole();
    };
    return first(groups.tensor) && first(groups.context) && first(groups.data);
  }
  /// True where no rank of its groups is absent; otherwise its results mean nothing.
  bool whole() const {
    return groups.tensor.whole() && groups.context.whole() && groups.data.whole() &&
           groups.stages.whole();
  }

  Ledger ledger;
  Ledger host;  ///< of the host's memory
  OffloadInFlight offload;
  ParameterStore parameters;

  /// FLOPs of the matrix multiplications executed so far on this rank.
  FlopCounter flops;

  /// Issues an operation to the compute stream.
  void run(const Operation& operation) {
    flops.add(cost_of(operation).flops);
    device.execute(operation);
  }
  Tensor allocate(const Shape& shape, Kind kind = Kind::workspace, Place place = {}) {
    return allocate(config.type, shape, kind, place);
  }
  Tensor allocate(DType type, const Shape& shape, Kind kind = Kind::workspace, Place place = {}) {
    return {ledger, kind, type, shape, place};
  }
};

/// A rank, and the place to which the memory belongs that is taken there.
struct RankAt {
  RankAt(Rank& rank, Place place = {}) : rank(rank), place(place) {}  // NOLINT: at none

  Rank& rank;
  Place place;
  /// Work that goes on beside this one; null: none.
  Interleaving* beside = nullptr;

  /// Waits for a collective; until then what is beside this goes on.
  void wait(Pending& collective) const { wait_beside(beside, collective); }
  void run(const Operation& operation) const { rank.run(operation); }
  Tensor allocate(const Shape& shape, Kind kind = Kind::workspace) const {
    return rank.allocate(shape, kind, place);
  }
  Tensor allocate(DType type, const Shape& shape, Kind kind = Kind::workspace) const {
    return rank.allocate(type, shape, kind, place);
  }
  Tensor allocate(DType type, const Shape& shape, const Pieces& pieces,
                  Kind kind = Kind::workspace) const {
    return {rank.ledger, kind, type, shape, place, pieces};
  }
  Tensor allocate_for(MemoryOf use, DType type, const Shape& shape, Kind kind) const {
    const int64_t bytes = View(nullptr, type, shape).bytes();
    return {rank.ledger, rank.ledger.take(bytes, kind, place, use), type, shape};
  }
  /// Copy of x in memory of its own, of this type.
  Tensor copied(const Tensor& x, DType type) const {
    Tensor y = allocate(type, x.shape());
    run(Copy{x.view().matrix(), y.view().matrix()});
    return y;
  }
  Tensor copied(const Tensor& x) const { return copied(x, x.type()); }
  /// x as this type: itself where it has it.
  Tensor converted(const Tensor& x, DType type) const {
    if (x.type() == type) return x;
    Tensor y = allocate(type, x.shape());
    run(Convert{x, y});
    return y;
  }

  /// Announces an event about x. An imitated program may replace or release x there, and hold
  /// tensors in `extras`, whose lifetime is the longest that they can have; it releases those that
  /// it holds until this event. Nothing happens where the program does not hear it.
  void event(ModelEvent what, Tensor& x, Extras& extras, Tensor* other = nullptr) const {
    if (rank.config.program.hears(what)) imitate(what, x, extras, other);
  }
  /// Announces an event at which nothing is held.
  void event(ModelEvent what, Tensor& x) const {
    Extras none;
    event(what, x, none);
  }
  /// Announces an event that is about no tensor.
  void event(ModelEvent what, Extras& extras) const {
    Tensor none;
    event(what, none, extras);
  }

 private:
  void imitate(ModelEvent what, Tensor& x, Extras& extras, Tensor* other) const;
};

}  // namespace frugal::engine
