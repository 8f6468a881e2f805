#include "engine/comm/communicator.h"

#include "engine/comm/contract.h"

namespace frugal::engine {
namespace {

class Both final : public Pending::Work {
 public:
  Both(Pending first, Pending second) : first_(std::move(first)), second_(std::move(second)) {}
  void wait() override {
    first_.wait();
    second_.wait();
  }

 private:
  Pending first_, second_;
};

}  // namespace

/// Suits communicators whose send does not last until it is received.
Pending Communicator::shift(const View& from, const View& to) {
  contract::shifted(from, to);
  Pending sent = send(from, (rank() + 1) % size());
  return Pending(
      std::make_unique<Both>(std::move(sent), receive(to, (rank() + size() - 1) % size())));
}

}  // namespace frugal::engine
