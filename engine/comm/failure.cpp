#include "engine/comm/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal::engine {

Failure failure_of(const std::exception_ptr& error, int rank) {
  using Kind = Failure::Kind;
  try {
    std::rethrow_exception(error);
  } catch (const CannotWrite& e) {
    return {Kind::cannot_write, rank, e.what()};
  } catch (const InputError& e) {
    return {Kind::input, rank, e.what()};
  } catch (const OutOfMemory& e) {
    return {Kind::out_of_memory, rank, e.what(), {e.requested, e.in_use, e.capacity}};
  } catch (const std::bad_alloc&) {
    return {Kind::out_of_memory, rank, "the host has no more memory for what is not a tensor"};
  } catch (const DeadlinePassed& e) {
    return {Kind::deadline, rank, e.what()};
  } catch (const PeerLost& e) {
    return {Kind::peer_lost, rank, e.what()};
  } catch (const WrongNumbers& e) {
    return {Kind::wrong_numbers, rank, e.what()};
  } catch (const Interrupted& e) {
    return {Kind::interrupted, rank, e.what()};
  } catch (const std::exception& e) {
    return {Kind::error, rank, e.what()};
  } catch (...) {
    return {Kind::error, rank, "something that is no exception of the standard library"};
  }
}

void raise(const Failure& failure) {
  using Kind = Failure::Kind;
  switch (failure.kind) {
    case Kind::input:
      throw InputError(failure.reason);
    case Kind::cannot_write:
      throw CannotWrite(failure.reason);
    case Kind::out_of_memory:
      throw OutOfMemory(failure.reason, failure.bytes[0], failure.bytes[1], failure.bytes[2]);
    case Kind::deadline:
      throw DeadlinePassed(failure.reason);
    case Kind::peer_lost:
      throw PeerLost(failure.reason);
    case Kind::wrong_numbers:
      throw WrongNumbers(failure.reason);
    case Kind::interrupted:
      throw Interrupted();
    case Kind::error:
      break;
  }
  throw std::runtime_error(failure.reason);
}

namespace {

/// Ranks of which a message says what they did.
constexpr size_t most_told = 16;
/// Seconds for which a rank is not heard that cannot answer: many of World's beats.
constexpr double silence = 1.5;

bool cannot_answer(const Heard& rank, double now) {
  return rank.of == Heard::Of::running && now - rank.at > silence;
}

/// The rank that is worst, of those that are bad at all; −1 for none.
template <class Badness>
int worst(const std::vector<Heard>& ranks, Badness badness) {
  int result = -1;
  std::optional<double> most;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (const std::optional<double> bad = badness(ranks[r]); bad > most) {
      most = bad;
      result = static_cast<int>(r);
    }
  return result;
}

/// One that has computed for a small part of the time for which others wait is not what they wait
/// for.
constexpr double small_part = 0.1;

int late_rank(const std::vector<Heard>& ranks, double now) {
  using Bad = std::optional<double>;
  const int silent = worst(ranks, [&](const Heard& rank) {
    return cannot_answer(rank, now) ? Bad(now - rank.at) : Bad();
  });
  if (silent >= 0) return silent;
  double longest_wait = 0;
  for (const Heard& rank : ranks)
    if (rank.state.waiting) longest_wait = std::max(longest_wait, now - rank.state.since);
  return worst(ranks, [&](const Heard& rank) {
    const double computing = now - rank.state.since;
    const bool waits = rank.state.waiting || rank.of != Heard::Of::running;
    return waits || computing <= small_part * longest_wait ? Bad() : Bad(computing);
  });
}

int first_not_finite(const std::vector<Heard>& ranks) {
  return worst(ranks, [](const Heard& rank) {
    const bool finite = rank.state.not_finite.name.empty();
    return finite ? std::optional<double>() : -rank.state.not_finite_at;
  });
}

std::string last_of(const Heard& rank, double now) {
  if (rank.of == Heard::Of::ended) return "has ended";
  if (rank.of == Heard::Of::others) return "is not heard here";
  if (!cannot_answer(rank, now)) return rank.state.text(now);
  return fmt::format("does not answer since {:.3g} s, and then: {}", now - rank.at,
                     rank.state.text(rank.at));
}

std::string last_of_all(const std::vector<Heard>& ranks, double now) {
  std::string text;
  for (size_t r = 0; r < std::min(ranks.size(), most_told); ++r)
    text += fmt::format("; rank {} {}", r, last_of(ranks[r], now));
  if (ranks.size() > most_told) text += fmt::format("; {} other ranks", ranks.size() - most_told);
  return text;
}

}  // namespace

Failure explained(Failure failure, const std::vector<Heard>& ranks, double now) {
  if (failure.kind == Failure::Kind::interrupted || failure.kind == Failure::Kind::input)
    return failure;
  if (failure.kind == Failure::Kind::deadline) {
    const int late = late_rank(ranks, now);
    if (late >= 0) failure.rank = late;
    failure.reason =
        (late >= 0 ? fmt::format("rank {} is late: ", late) : "all ranks wait for each other: ") +
        failure.reason;
  } else if (failure.kind == Failure::Kind::wrong_numbers && first_not_finite(ranks) >= 0) {
    failure.rank = first_not_finite(ranks);
    const Activity::State& state = ranks[static_cast<size_t>(failure.rank)].state;
    failure.reason = fmt::format("rank {} was the first with what is not finite, in {}: {}",
                                 failure.rank, state.not_finite.text(), failure.reason);
  } else {
    failure.reason = fmt::format("rank {}: {}", failure.rank, failure.reason);
  }
  if (failure.kind == Failure::Kind::deadline || failure.kind == Failure::Kind::peer_lost)
    failure.reason += last_of_all(ranks, now);
  return failure;
}

}  // namespace frugal::engine
