#pragma once
#include <memory>

#include "harness/measure/case.h"
#include "harness/measure/timing.h"
#include "harness/peaks/utilization.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// Called after each step, counted from 1, with what it gave in words.
using StepDone = std::function<void(int64_t step, const std::string& outcome)>;

/// A case while it runs, from its device to its record. One class for each kind of workload.
class CaseRun {
 public:
  CaseRun() = default;
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;
  virtual ~CaseRun() = default;

  /// Fills in all that is not timed in rounds. Throws what runs throw.
  virtual void observe(Record& record) = 0;
  /// Windows of what observe() timed and kept; none where rounds are timed, or nothing is.
  virtual std::vector<TimeWindow> timed() const { return {}; }
  /// One round; its samples are kept or not. Nothing where no rounds are timed.
  virtual void time(Record& /*record*/, bool /*keep*/) {}
  /// Gives the device back after the rounds.
  virtual void release(Record& /*record*/) {}
  /// What needs the device for itself, after all that were timed together have been released.
  virtual void rate(Record& /*record*/) {}
  /// Whether it holds a device's memory.
  virtual bool holds_memory() const { return false; }
};

/// Run of a case on a target; both, and the peaks of its target, must outlive it.
std::unique_ptr<CaseRun> run_of_case(const Case& c, const Target& target, PeakRates& peaks,
                                     StepDone done);

}  // namespace frugal::harness
