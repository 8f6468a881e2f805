#pragma once
#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/tasks.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Division of a collective's work among its ranks.
enum class Parts : uint8_t {
  by_each,  ///< each rank its own when it waits: together, on several cores
  by_last   ///< the rank that comes last, all of them at once: the others find it done when they
            ///< wait, and nobody is kept until they do
};

/// Meeting place of the threads or tasks of a group. It numbers each rank's collectives, brings
/// together the calls of the same number, lets each rank do its part on the memory of all, and
/// keeps every rank until nobody needs its memory. Messages are kept in mailboxes. Views without
/// memory count too: nothing of theirs is copied.
///
/// Once a rank fails or a deadline passes, every present and future call of any rank throws; no
/// rank is let go while another still works on its memory.
class Rendezvous {
 public:
  /// Does one rank's part of a collective, whose calls are in the order of ranks.
  using DoPart = std::function<void(int rank, const std::vector<Call>& calls)>;
  struct Collective;

  /// No single wait of a thread lasts longer than `deadline` seconds; a task's ends at once when
  /// all tasks wait. Either throws DeadlinePassed. `names` are what messages call the ranks: "stage
  /// 3"; without them it is "rank 3".
  Rendezvous(int size, double deadline, std::vector<std::string> names, DoPart do_part,
             Parts parts = Parts::by_each);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Does not wait. Throws PeerLost after a failure, as the others do, and what finish() throws of
  /// calls that do not belong together where it does all parts. `ready` is when the rank's operands
  /// are there, where time is modelled.
  std::shared_ptr<Collective> start(int rank, const Call& call, double ready = 0);
  /// Returns when the last rank was ready. Throws DeadlinePassed that names the ranks that are
  /// missing, and std::logic_error that names two calls that do not belong together.
  double finish(int rank, Collective& collective);

  /// Kinds of point-to-point messages. Each kind has its own sequence numbers.
  enum class MessageKind : uint8_t {
    data,
    ready  ///< the receiver tells the sender that it can receive
  };
  /// Copies a message into the mailbox; does not wait. `arrival` is when it is there, where time is
  /// modelled.
  void post(int from, int to, const View& data, double arrival = 0,
            MessageKind kind = MessageKind::data);
  /// The number of the next one to be taken.
  uint64_t expect(int from, int to, MessageKind kind = MessageKind::data);
  /// Waits for the message, copies it to `data`, and returns its arrival.
  double take(int from, int to, uint64_t number, const View& data,
              MessageKind kind = MessageKind::data);

  const std::string& name(int rank) const { return names_[static_cast<size_t>(rank)]; }

  void fail(const std::string& reason) noexcept;
  /// PeerLost after a failure.
  void check();
  /// Forgets failures and everything unfinished; no rank may be using the group.
  void reset();

 private:
  struct Mailbox;
  using Lock = std::unique_lock<std::mutex>;

  Mailbox& mailbox(int from, int to, MessageKind kind);
  void check_calls(const Collective& collective) const;
  void do_all_parts(Collective& collective);
  void wake_all();
  void throw_if_failed() const;
  /// Waits until `ready`; throws PeerLost on a failure, and DeadlinePassed with what `late` says.
  template <class Ready, class Late>
  void wait_for(Lock& lock, int rank, Ready ready, Late late);
  /// Waits, after a failure, until nobody works on this collective's memory any more.
  void let_go(Lock& lock, int rank, Collective& collective);

  const int size_;
  const std::chrono::duration<double> deadline_;
  const DoPart do_part_;
  const Parts parts_;
  std::vector<std::string> names_;

  std::mutex mutex_;             // guards everything below
  std::vector<Signal> changed_;  // for each rank: a message wakes its receiver
  bool failed_ = false;
  std::string reason_;
  uint64_t oldest_ = 0;                           // number of the first of open_
  std::deque<std::shared_ptr<Collective>> open_;  // not yet started by every rank
  std::vector<uint64_t> started_;                 // by each rank
  std::vector<Mailbox> mailboxes_;
};

/// A collective or message that a rank has started at a rendezvous and not yet waited for. Waiting
/// while an exception unwinds the rank would wait for peers that it is about to let down, so they
/// are told first.
class RendezvousWork : public Pending::Work {
 public:
  RendezvousWork(Rendezvous& rendezvous, int rank) : rendezvous_(rendezvous), rank_(rank) {}
  void wait() final {
    if (std::uncaught_exceptions() > exceptions_)
      rendezvous_.fail(
          fmt::format("{} failed before it had waited for its peers", rendezvous_.name(rank_)));
    finish();
  }

 protected:
  virtual void finish() = 0;
  Rendezvous& rendezvous_;
  const int rank_;

 private:
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace frugal::engine
