#include "engine/comm/failure.h"

#include <cstring>
#include <new>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// What goes before the words.
struct FailureHeader {
  Failure::Kind kind;
  int rank;
  std::array<int64_t, 3> bytes;
};

}  // namespace

std::string Failure::serialized() const {
  const FailureHeader header{kind, rank, bytes};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + reason;
}

Failure Failure::parsed(const std::string& text) {
  FailureHeader header{};
  if (text.size() < sizeof header) return {.reason = "a failure without words"};
  std::memcpy(&header, text.data(), sizeof header);
  return {header.kind, header.rank, text.substr(sizeof header), header.bytes};
}

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

}  // namespace frugal::engine
