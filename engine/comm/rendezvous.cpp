#include "engine/comm/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Peers that run on other cores are usually about to come: worth a look or two before sleeping.
void spin_until(const std::atomic<int>& count, int target) {
  for (int i = 0; i < 32 && !tasks::inside() && count.load(std::memory_order_acquire) < target; ++i)
    std::this_thread::yield();
}

/// True if both are calls of one and the same collective.
bool match(const Call& a, const Call& b) {
  return a.kind == b.kind && a.from.size() == b.from.size() && a.from.type == b.from.type &&
         a.peer == b.peer;
}

}  // namespace

/// The group's mutex guards all but `calls`, which do not change once all have arrived.
struct Rendezvous::Collective {
  Collective(uint64_t number, int size)
      : number(number), calls(static_cast<size_t>(size)), here(calls.size()), done(calls.size()) {}

  const uint64_t number;
  std::vector<Call> calls;
  std::vector<bool> here, done;
  double ready = 0;  // when the last is
  int working = 0;   // ranks that touch the others' memory now
  std::atomic<int> arrived{0}, finished{0};
};

/// Messages from one rank to another that were sent and not yet received, by their number.
struct Rendezvous::Mailbox {
  struct Message {
    View view;
    std::unique_ptr<std::byte[]> bytes;
    double arrival;
  };
  uint64_t sent = 0, expected = 0;
  std::map<uint64_t, Message> messages;
};

Rendezvous::Rendezvous(int size, double deadline, std::vector<std::string> names, DoPart do_part,
                       Parts parts)
    : size_(size),
      deadline_(deadline),
      do_part_(std::move(do_part)),
      parts_(parts),
      names_(std::move(names)),
      changed_(static_cast<size_t>(size)) {
  for (int r = static_cast<int>(names_.size()); r < size; ++r)
    names_.push_back(fmt::format("rank {}", r));
  reset();
}
Rendezvous::~Rendezvous() = default;

void Rendezvous::reset() {
  const std::lock_guard lock(mutex_);
  failed_ = false;
  reason_.clear();
  oldest_ = 0;
  open_.clear();
  started_.assign(static_cast<size_t>(size_), 0);
  mailboxes_.clear();
  mailboxes_.resize(2 * static_cast<size_t>(size_) * static_cast<size_t>(size_));
}

void Rendezvous::fail(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_) return;  // the first reason is the cause of the others
  failed_ = true;
  reason_ = reason;
  wake_all();
}

void Rendezvous::wake_all() {
  for (Signal& changed : changed_) changed.notify();
}

void Rendezvous::check() {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
}

void Rendezvous::throw_if_failed() const {
  if (failed_) throw PeerLost(reason_);
}

template <class Ready, class Late>
void Rendezvous::wait_for(Lock& lock, int rank, Ready ready, Late late) {
  const Signal::End end = changed_[static_cast<size_t>(rank)].wait(
      lock, std::chrono::duration_cast<std::chrono::nanoseconds>(deadline_),
      [&] { return failed_ || ready(); });
  if (ready()) return;
  throw_if_failed();
  failed_ = true;
  reason_ = end == Signal::End::stuck
                ? fmt::format("{}, and every other rank waits or has ended", late())
                : fmt::format("{} within {} s", late(), deadline_.count());
  wake_all();
  throw DeadlinePassed(reason_);
}

std::shared_ptr<Rendezvous::Collective> Rendezvous::start(int rank, const Call& call,
                                                          double ready) {
  Lock lock(mutex_);
  throw_if_failed();
  const auto r = static_cast<size_t>(rank);
  const uint64_t number = started_[r]++;
  if (number - oldest_ == open_.size())
    open_.push_back(std::make_shared<Collective>(number, size_));
  auto collective = open_[number - oldest_];
  collective->calls[r] = call;
  collective->here[r] = true;
  collective->ready = std::max(collective->ready, ready);
  if (collective->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < size_) return collective;
  open_.pop_front();  // every rank starts them in order, so this is the oldest
  ++oldest_;
  if (parts_ == Parts::by_last) {
    ++collective->working;
    lock.unlock();
    do_all_parts(*collective);
    lock.lock();
  }
  wake_all();
  return collective;
}

/// Called by the rank that came last; it is counted in `working` already.
void Rendezvous::do_all_parts(Collective& collective) {
  const auto end = [&](int finished) {
    const std::lock_guard lock(mutex_);
    --collective.working;
    collective.finished = finished;
    wake_all();
  };
  try {
    check_calls(collective);
    for (int r = 0; r < size_; ++r) do_part_(r, collective.calls);
  } catch (...) {
    end(0);
    throw;
  }
  end(size_);
}

void Rendezvous::check_calls(const Collective& collective) const {
  for (size_t peer = 1; peer < collective.calls.size(); ++peer)
    if (!match(collective.calls[peer], collective.calls[0]))
      throw std::logic_error(fmt::format(
          "collective number {} is {} on {} (root {}) but {} on {} (root {})", collective.number,
          collective.calls[0].text(), names_[0], collective.calls[0].peer,
          collective.calls[peer].text(), names_[peer], collective.calls[peer].peer));
}

void Rendezvous::let_go(Lock& lock, int rank, Collective& collective) {
  changed_[static_cast<size_t>(rank)].wait(lock, [&] { return collective.working == 0; });
}

double Rendezvous::finish(int rank, Collective& collective) {
  const auto r = static_cast<size_t>(rank);
  const auto late = [&](const std::vector<bool>& present) {
    std::vector<std::string> absent;
    for (size_t peer = 0; peer < present.size(); ++peer)
      if (!present[peer]) absent.push_back(names_[peer]);
    return fmt::format("{}: {} (number {}): {} did not come", names_[r], collective.calls[r].text(),
                       collective.number, fmt::join(absent, ", "));
  };
  const bool own_part = parts_ == Parts::by_each;
  spin_until(own_part ? collective.arrived : collective.finished, size_);
  Lock lock(mutex_);
  try {
    if (own_part) {
      wait_for(
          lock, rank, [&] { return collective.arrived == size_; },
          [&] { return late(collective.here); });
      throw_if_failed();
      check_calls(collective);
      ++collective.working;
      lock.unlock();
      do_part_(rank, collective.calls);
      lock.lock();
      --collective.working;
      collective.done[r] = true;
      if (++collective.finished == size_ || failed_) wake_all();
      if (collective.finished < size_) {
        lock.unlock();
        spin_until(collective.finished, size_);
        lock.lock();
      }
    }
    wait_for(
        lock, rank, [&] { return collective.finished == size_; },
        [&] { return late(own_part ? collective.done : collective.here); });
  } catch (...) {
    let_go(lock, rank, collective);
    throw;
  }
  return collective.ready;
}

Rendezvous::Mailbox& Rendezvous::mailbox(int from, int to, MessageKind kind) {
  const auto size = static_cast<size_t>(size_);
  return mailboxes_[(static_cast<size_t>(kind) * size + static_cast<size_t>(from)) * size +
                    static_cast<size_t>(to)];
}

void Rendezvous::post(int from, int to, const View& data, double arrival, MessageKind kind) {
  std::unique_ptr<std::byte[]> copy;
  if (data.data != nullptr) {
    const auto bytes = static_cast<size_t>(data.bytes());
    copy = std::make_unique<std::byte[]>(bytes);
    std::memcpy(copy.get(), data.data, bytes);
  }
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  Mailbox& box = mailbox(from, to, kind);
  box.messages[box.sent++] = {data, std::move(copy), arrival};
  changed_[static_cast<size_t>(to)].notify();
}

uint64_t Rendezvous::expect(int from, int to, MessageKind kind) {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  return mailbox(from, to, kind).expected++;
}

double Rendezvous::take(int from, int to, uint64_t number, const View& data, MessageKind kind) {
  Lock lock(mutex_);
  Mailbox& box = mailbox(from, to, kind);
  wait_for(
      lock, to, [&] { return box.sent > number; },
      [&] {
        return kind == MessageKind::data
                   ? fmt::format("{}: message {} from {} did not come", name(to), number,
                                 name(from))
                   : fmt::format("{}: {} did not take message {}", name(to), name(from), number);
      });
  const auto message = box.messages.extract(number);
  lock.unlock();
  const auto& [sent, bytes, arrival] = message.mapped();
  if (sent.size() != data.size() || sent.type != data.type)
    throw std::logic_error(fmt::format(
        "message {} is sent as {} {} by {} but received as {} {} by {}", number, sent.size(),
        name_of(sent.type), name(from), data.size(), name_of(data.type), name(to)));
  if (bytes && data.data) std::memcpy(data.data, bytes.get(), static_cast<size_t>(data.bytes()));
  return arrival;
}

}  // namespace frugal::engine
