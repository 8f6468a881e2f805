#pragma once
#include <fmt/format.h>

#include <exception>

#include "engine/comm/communicator.h"
#include "engine/comm/rendezvous.h"

namespace frugal::engine {

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

/// A message that is to be received.
class ReceiveWork final : public RendezvousWork {
 public:
  ReceiveWork(Rendezvous& rendezvous, int rank, int from, const View& data)
      : RendezvousWork(rendezvous, rank),
        from_(from),
        number_(rendezvous.expect(from, rank)),
        data_(data) {}

 private:
  void finish() override { rendezvous_.take(from_, rank_, number_, data_); }

  const int from_;
  const uint64_t number_;
  const View data_;
};

}  // namespace frugal::engine
