#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/namespace.h"
#include "kernels/view.h"

namespace frugal::engine {

/// A collective or message that has been started. Its views must stay allocated and untouched until
/// wait() returns; wait() orders the device's compute stream behind it. Waited for on destruction.
class Pending {
 public:
  struct Work {
    virtual ~Work() = default;
    virtual void wait() = 0;
  };

  Pending() = default;
  explicit Pending(std::unique_ptr<Work> work) : work_(std::move(work)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) {  // NOLINT: waits, and so may throw
    wait();
    work_ = std::move(other.work_);
    return *this;
  }
  ~Pending() {
    try {
      wait();
    } catch (...) {  // the rank is unwinding already; its peers learn it from abort()
    }
  }

  /// True if there is something to wait for.
  bool started() const { return work_ != nullptr; }
  /// Throws PeerLost when another rank aborted, DeadlinePassed when it did not come in time.
  void wait() {
    if (const auto work = std::move(work_)) work->wait();
  }

 private:
  std::unique_ptr<Work> work_;
};

/// A collective or message, as one rank calls it.
struct Call {
  enum class Kind : uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    shift,
    send,
    receive,
    barrier
  };
  Kind kind = Kind::barrier;
  View from = {}, to = {};  ///< operand and result; both the same view where there is but one
  int peer = 0;             ///< root, receiver or sender

  /// "all-reduce of 8 f32"
  std::string text() const;
  /// Throws std::invalid_argument, which names the views, for a call that no rank of so many may
  /// make: an error of the program.
  void check(int ranks) const;
};
constexpr Names names_of(Call::Kind) {
  return {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast",
          "shift",      "send",       "receive",        "barrier"};
}
/// "all-reduce of 8 f32"; the name alone of what has no operand.
std::string text_of(std::string_view name, const View& operand);

/// Collectives and messages of one rank with the other ranks of a group. All views are contiguous
/// and of type f32, bf16 or f64 (any type where nothing is summed). Every rank calls the same
/// collectives in the same order. Sums are in accumulation type and in the order of ranks, so
/// results do not depend on timing, and reduce-scatter followed by all-gather equals all-reduce bit
/// for bit.
///
/// NCCL's differ (engine/comm/nccl/nccl.h): each addition of a sum is rounded to the views' type,
/// bf16 too, and their order is NCCL's own, so sums are as good as the type but agree with no other
/// communicator, nor need an all-reduce agree with a reduce-scatter and an all-gather bit for bit.
/// And a send may last until it is received: ranks that all send before they receive may wait for
/// each other.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True if every rank exists. Otherwise one stands for all, and results that need the others'
  /// data mean nothing (engine/comm/modelled.h).
  virtual bool whole() const { return true; }

  /// data := Σ over ranks of data.
  [[nodiscard]] Pending all_reduce(const View& data) {
    return start({Call::Kind::all_reduce, data, data});
  }
  /// all := the shards of ranks 0 … size−1 one after the other; all has size × shard's elements.
  /// The shard may be its own part of them.
  [[nodiscard]] Pending all_gather(const View& shard, const View& all) {
    return start({Call::Kind::all_gather, shard, all});
  }
  /// shard := part `rank` of Σ over ranks of all, and may be that part of all.
  [[nodiscard]] Pending reduce_scatter(const View& all, const View& shard) {
    return start({Call::Kind::reduce_scatter, all, shard});
  }
  /// part j of `from` goes to part rank of j's `to`; both have size equal parts.
  [[nodiscard]] Pending all_to_all(const View& from, const View& to) {
    return start({Call::Kind::all_to_all, from, to});
  }
  /// data := root's data.
  [[nodiscard]] Pending broadcast(const View& data, int root) {
    return start({Call::Kind::broadcast, data, data, root});
  }
  /// Messages between two ranks arrive in the order in which they were sent.
  [[nodiscard]] Pending send(const View& data, int to) {
    return start({Call::Kind::send, data, data, to});
  }
  [[nodiscard]] Pending receive(const View& data, int from) {
    return start({Call::Kind::receive, data, data, from});
  }
  /// Around a ring: to := `from` of the rank before, of the last one for rank 0. Both have the same
  /// size. All ranks send and receive at once.
  [[nodiscard]] Pending shift(const View& from, const View& to) {
    return start({Call::Kind::shift, from, to});
  }
  /// Any of these.
  [[nodiscard]] Pending start(const Call& call) {
    call.check(size());
    return begin(call);
  }
  virtual void barrier() = 0;

  /// Makes every other rank's present and future calls throw PeerLost(reason).
  virtual void abort(const std::string& reason) noexcept = 0;

 private:
  /// Starts a call that is checked, and is no barrier.
  virtual Pending begin(const Call& call) = 0;
};

/// The communicators of a group's ranks that are in this process.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  int size() const;
  /// Communicator of a rank that is here. Each is used by one thread at a time, and not after the
  /// group.
  Communicator& communicator(int rank) const {
    return communicators_.size() == 1 ? *communicators_.front()
                                      : *communicators_.at(static_cast<size_t>(rank));
  }
  /// Forgets an abort and everything unfinished; no rank may be using the group.
  virtual void reset() {}

 protected:
  /// One for each rank, null where that is not here; or one alone, of whichever rank is here.
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

/// One of so many equal parts of a view's elements: what a collective has for one rank.
inline View part_of(const View& whole, int64_t part, int64_t parts) {
  const int64_t count = whole.size() / parts;
  return whole.flat().sliced(0, part * count, count);
}

}  // namespace frugal::engine
