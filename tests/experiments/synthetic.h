#pragma once
#include "experiments/namespace.h"
#include "harness/measure/artifact.h"

namespace frugal::experiments {

/// The record that a case would leave behind, without observations.
inline Record record_of(const Artifact& artifact, const Case& c) {
  Record r;
  r.artifact = artifact.id();
  r.case_id = c.id;
  r.what = what_of(c.workload);
  r.source = c.source();
  r.on = c.on;
  r.device = "NVIDIA H200 in words";
  if (!c.lone_rank.empty()) {
    r.modelled = {c.lone_rank, "hash of " + c.lone_rank};
    r.device += "; one rank of 8; communication modelled on " + c.lone_rank;
  }
  r.scale = c.scale;
  r.config = c.config;
  return r;
}

/// A record of every case, made by `observe(record)`; of virtual ones those of frugal's own
/// behaviour, unless the selection names another.
template <class Observe>
Records records_of(const Artifact& artifact, Selection selection, const Observe& observe) {
  if (selection.programs == Programs::both) selection.programs = Programs::frugal;
  Records records;
  for (const Case& c : artifact.cases(selection)) {
    Record r = record_of(artifact, c);
    observe(r);
    records.add(std::move(r));
  }
  return records;
}

}  // namespace frugal::experiments
