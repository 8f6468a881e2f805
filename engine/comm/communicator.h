#pragma once
#include <memory>

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
  [[nodiscard]] virtual Pending all_reduce(const View& data) = 0;
  /// all := the shards of ranks 0 … size−1 one after the other; all has size × shard's elements.
  /// The shard may be its own part of them.
  [[nodiscard]] virtual Pending all_gather(const View& shard, const View& all) = 0;
  /// shard := part `rank` of Σ over ranks of all, and may be that part of all.
  [[nodiscard]] virtual Pending reduce_scatter(const View& all, const View& shard) = 0;
  /// part j of `from` goes to part rank of j's `to`; both have size equal parts.
  [[nodiscard]] virtual Pending all_to_all(const View& from, const View& to) = 0;
  /// data := root's data.
  [[nodiscard]] virtual Pending broadcast(const View& data, int root) = 0;
  /// Messages between two ranks arrive in the order in which they were sent.
  [[nodiscard]] virtual Pending send(const View& data, int to) = 0;
  [[nodiscard]] virtual Pending receive(const View& data, int from) = 0;
  /// Around a ring: to := `from` of the rank before, of the last one for rank 0. Both have the same
  /// size. All ranks send and receive at once.
  [[nodiscard]] virtual Pending shift(const View& from, const View& to);
  virtual void barrier() = 0;

  /// Makes every other rank's present and future calls throw PeerLost(reason).
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// The communicators of all ranks of a group that are threads of this process.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  virtual int size() const = 0;
  /// Each is used by one thread at a time, and not after the group.
  virtual Communicator& communicator(int rank) = 0;
  /// Forgets an abort and everything unfinished; no rank may be using the group.
  virtual void reset() = 0;
};

/// One of so many equal parts of a view's elements: what a collective has for one rank.
inline View part_of(const View& whole, int64_t part, int64_t parts) {
  const int64_t count = whole.size() / parts;
  return whole.flat().sliced(0, part * count, count);
}

}  // namespace frugal::engine

/// Preconditions of a communicator's calls, checked by every implementation where a collective is
/// started. A breach is an error of the program:
/// std::invalid_argument, which names the collective and the views.
namespace frugal::engine::contract {

void summed(const char* collective, const View& data);
void gathered(const char* collective, const View& shard, const View& all, int ranks);
/// Check the operands of all_to_all(), and of shift().
void exchanged(const View& from, const View& to, int ranks);
void shifted(const View& from, const View& to);
void moved(const char* collective, const View& data);
void peer(const char* collective, int peer, int ranks);

}  // namespace frugal::engine::contract
