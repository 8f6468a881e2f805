#pragma once
#include <memory>
#include <vector>

#include "engine/comm/communicator.h"

namespace frugal {

class Rendezvous;

/// Ranks that are threads of one process. Starting a collective publishes the rank's views; waiting
/// for it waits for the others, does this rank's part directly on everybody's memory, and waits
/// until nobody needs this rank's memory any more. Collectives of several ranks that do not belong
/// together throw std::logic_error that names both.
class LocalGroup {
 public:
  static constexpr double default_deadline = 600;

  /// No single wait lasts longer than `deadline` seconds.
  explicit LocalGroup(int size, double deadline = default_deadline);
  ~LocalGroup();
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  int size() const { return static_cast<int>(communicators_.size()); }
  /// Each is used by one thread at a time, and not after the group.
  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }
  /// Forgets an abort and everything unfinished; no rank may be using the group.
  void reset();

 private:
  std::unique_ptr<Rendezvous> rendezvous_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace frugal
