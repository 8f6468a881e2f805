#pragma once
#include <mpi.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/processes/world.h"

namespace frugal::engine::mpi {

/// Throws PeerLost with MPI's words unless a call has succeeded; `call` is its name.
void check(int result, const char* call);

/// Memory that is used again.
class Scratch {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity = 0;
  };
  Buffer take(size_t bytes);
  void give_back(Buffer buffer);

 private:
  std::vector<Buffer> free_;
};

/// A collective or message that was started: requests of MPI's, and what follows when they have
/// ended, which may make further ones.
struct Flight {
  std::vector<MPI_Request> requests;
  std::function<void(Flight&)> next = {};
  Scratch::Buffer scratch = {};
  bool over = false;

  void add(MPI_Request request) { requests.push_back(request); }
};

/// All that one process has under way. Whoever waits lets all of it go on.
class Flights {
 public:
  explicit Flights(World& world) : world_(world) {}

  /// A new one, with so many bytes of scratch memory; it goes on from its next advance().
  std::shared_ptr<Flight> start(size_t scratch = 0);
  /// Waits until the flight is over. `call` names it in the message of a deadline that passes.
  void wait(const Flight& flight, const std::function<std::string()>& call);
  /// Waits until nothing is under way any more.
  void finish();
  /// Lets all go on; whether something is still under way then.
  bool go_on() {
    advance();
    return !flights_.empty();
  }
  World& world() { return world_; }

 private:
  void advance();
  void advance(Flight& flight);
  template <class Ready>
  void wait_until(const Ready& ready, const std::function<std::string()>& call);

  World& world_;
  Scratch scratch_;
  std::list<std::shared_ptr<Flight>> flights_;
};

}  // namespace frugal::engine::mpi
