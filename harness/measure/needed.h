#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/measure/case.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// The target's virtual machine, or counterpart, whose ranks may take so many bytes.
std::unique_ptr<Target> virtual_target(const Target& target, int64_t memory);
/// Virtual machine like virtual_target()'s, with as much memory as anything takes.
std::unique_ptr<Target> without_limit(const Target& target);

/// Bytes that a case takes there, however many the target has. None of a case that observes neither
/// a training nor a module, and where the counterpart cannot run it: it may have no links.
std::optional<Needed> needed_by(const Case& c, const Target& target);
std::optional<Needed> needed_by(const TrainingRun& run, const Target& target);

/// "needs 285.46 GiB of 78.15 GiB": of the memory of which there is too little.
std::string in_short(const Needed& needed);
/// "needs 285.46 GiB of 78.15 GiB on each rank (optimizer 85.1 GiB, …)"; and behind it what was
/// the first to have no room.
std::string in_words(const Needed& needed);
std::string in_words(const std::optional<Needed>& needed, const std::string& first);

/// Gives the record of a case that ran out of memory what it needs, in its reason too. Any other
/// record stays as it is.
void add_needed(Record& record, const Case& c, const Target& target);

/// Runs a training's work; where that throws OutOfMemory, this does, with what is needed in it.
void with_needed(const TrainingRun& run, const Target& target, const std::function<void()>& work);

}  // namespace frugal::harness
