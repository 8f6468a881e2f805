#include "harness/measure/guarded.h"

#include "engine/comm/communicator.h"
#include "harness/measure/interrupt.h"
#include "harness/place/processes.h"
#include "kernels/support/error.h"

namespace frugal::harness {

namespace {

/// What one of several processes throws ends the run of all, and all throw the same.
void with_all_processes(const std::function<void()>& work) {
  Processes* const processes = Processes::here();
  if (processes == nullptr) return work();
  try {
    work();
  } catch (...) {
    raise(processes->world().fail(failure_of(std::current_exception(), processes->rank())));
  }
}

}  // namespace

void run_guarded(Record& record, const std::function<void()>& work) {
  const auto ended = [&](Status status, const std::string& reason) {
    record.status = status;
    record.reason = reason;
  };
  try {
    with_all_processes(work);
  } catch (const Interrupted&) {
    // What has kept how far it came has said so.
    ended(Status::interrupted, record.reason.empty() ? interrupted_reason : record.reason);
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const OutOfMemory& e) {
    ended(Status::oom, e.what());
  } catch (const DeadlinePassed& e) {
    ended(Status::timeout, e.what());
  } catch (const PeerLost& e) {
    ended(Status::peer_lost, e.what());
  } catch (const std::bad_alloc&) {
    ended(Status::oom, "the host has no more memory for what is not a tensor");
  } catch (const std::exception& e) {
    ended(Status::failed, e.what());
  }
}

std::optional<int64_t> reserved_by(const Device& device) {
  if (!device.reserves()) return std::nullopt;
  return device.reserved();
}

}  // namespace frugal::harness
