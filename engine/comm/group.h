#pragma once
#include "engine/comm/communicator.h"

namespace frugal::engine {

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

}  // namespace frugal::engine
