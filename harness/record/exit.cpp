#include "harness/record/exit.h"

namespace frugal::harness {

Exit exit_of(Status status) {
  switch (status) {
    case Status::ok:
    case Status::skipped:
      return Exit::done;
    case Status::oom:
      return Exit::out_of_memory;
    case Status::timeout:
      return Exit::deadline;
    case Status::peer_lost:
      return Exit::peer_lost;
    case Status::failed:
      return Exit::wrong_numbers;
    case Status::interrupted:
      return Exit::interrupted;
  }
  return Exit::done;
}

Exit exit_of(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::input:
    case Failure::Kind::cannot_write:
      return Exit::bad_input;
    case Failure::Kind::out_of_memory:
      return Exit::out_of_memory;
    case Failure::Kind::deadline:
      return Exit::deadline;
    case Failure::Kind::peer_lost:
      return Exit::peer_lost;
    case Failure::Kind::interrupted:
      return Exit::interrupted;
    case Failure::Kind::wrong_numbers:
    case Failure::Kind::error:
      break;
  }
  return Exit::wrong_numbers;
}

}  // namespace frugal::harness
