#include "engine/comm/processes/mpi_flights.h"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <thread>
#include <utility>

#include "kernels/support/error.h"

namespace frugal::engine::mpi {
namespace {

/// Policy of a waiting process: it looks again at once, then lets others have the core, for longer
/// than the ranks of a step are usually apart, then sleeps.
class Patience {
 public:
  void look_again() {
    ++looks_;
    if (looks_ < at_once) return;
    if (looks_ < at_once + yielding)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  /// True in every 16th look, for what need not be looked at more often.
  bool now_and_then() const { return looks_ % 16 == 15; }

 private:
  static constexpr int at_once = 400, yielding = 4000;
  int looks_ = 0;
};

}  // namespace

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  MPI_Error_string(result, text.data(), &size);
  throw PeerLost(fmt::format("{}: {}", call, text.data()));
}

Scratch::Buffer Scratch::take(size_t bytes) {
  for (Buffer& buffer : free_)
    if (buffer.capacity >= bytes && buffer.capacity / 2 <= bytes) {
      std::swap(buffer, free_.back());
      Buffer taken = std::move(free_.back());
      free_.pop_back();
      return taken;
    }
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

void Scratch::give_back(Buffer buffer) {
  constexpr size_t most = 8;  // as many as are under way at once, or nearly
  if (free_.size() == most) free_.erase(free_.begin());
  free_.push_back(std::move(buffer));
}

std::shared_ptr<Flight> Flights::start(size_t scratch) {
  auto flight = std::make_shared<Flight>();
  if (scratch > 0) flight->scratch = scratch_.take(scratch);
  flights_.push_back(flight);
  return flight;
}

void Flights::advance(Flight& flight) {
  int ended = 0;
  check(MPI_Testall(static_cast<int>(flight.requests.size()), flight.requests.data(), &ended,
                    MPI_STATUSES_IGNORE),
        "MPI_Testall");
  if (ended == 0) return;
  flight.requests.clear();
  if (const auto next = std::exchange(flight.next, {})) next(flight);
  flight.over = flight.requests.empty() && !flight.next;
  if (flight.over && flight.scratch.capacity > 0) scratch_.give_back(std::move(flight.scratch));
}

void Flights::advance() {
  for (auto i = flights_.begin(); i != flights_.end();) {
    advance(**i);
    i = (*i)->over ? flights_.erase(i) : std::next(i);
  }
}

template <class Ready>
void Flights::wait_until(const Ready& ready, const std::function<std::string()>& call) {
  const double begin = activity_clock();
  for (Patience patience; !ready(); patience.look_again()) {
    advance();
    if (!patience.now_and_then()) continue;
    world_.check();
    if (const double waited = activity_clock() - begin; waited > world_.deadline())
      throw DeadlinePassed(fmt::format("rank {}: {} did not end within {} s", world_.rank(), call(),
                                       world_.deadline()));
  }
}

void Flights::wait(const Flight& flight, const std::function<std::string()>& call) {
  wait_until([&] { return flight.over; }, call);
}

void Flights::finish() {
  wait_until([&] { return flights_.empty(); }, [] { return "what was under way"; });
}

}  // namespace frugal::engine::mpi
