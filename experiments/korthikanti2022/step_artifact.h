#pragma once
#include "experiments/korthikanti2022/layer_artifact.h"

namespace frugal::korthikanti2022 {

inline constexpr double gib = 1024.0 * 1024 * 1024;

/// A training step of a model as an artifact runs it, at full size.
struct Step {
  std::string id;  ///< of the case, "530B/deallocation"
  RunConfig config;
};

/// A model with its pipeline as the paper runs it: interleaved where table 3 says so.
///
/// It has as many microbatches of the global batch as its memory needs to reach its peak, which is
/// fewer than all: after 2p every stage has had as many in flight as it ever has.
RunConfig step_config(const Model& model, const Technique& technique);

/// A table or figure about the memory of whole training steps, on the paper's machine, virtually,
/// whose limit is left aside: what does not fit is a number too. On other devices it runs nothing.
class StepArtifact : public Artifact {
 public:
  StepArtifact(std::string name, std::vector<Step> steps)
      : name_(std::move(name)), steps_(std::move(steps)) {}

  std::string id() const override { return std::string(paper_id) + "/" + name_; }
  std::string title() const override { return caption(name_); }
  std::vector<Case> cases(const Selection& selection) const override;
  std::vector<Cell> cells(const Records& records) const override;

 protected:
  virtual std::vector<Cell> cells_in(const Setting& setting, const Records& records) const = 0;

  /// A cell of what `number` makes of the records of these cases, in their order; with the paper's
  /// number where there is one and the model is of full size.
  template <class F>
  Cell observe(std::string_view row, std::string_view column, std::string_view unit,
               const Setting& setting, const Records& records, const F& number,
               const std::vector<std::string>& case_ids) const {
    std::vector<const Record*> found;
    Outcome outcome;
    for (const std::string& case_id : case_ids) {
      const Record* record = records.find(id(), case_id, setting);
      if (record == nullptr)
        outcome = {{}, Status::skipped, "case " + case_id + " was not run"};
      else if (!record->ok())
        outcome = {{}, record->status, record->reason};
      if (!outcome.reason.empty()) break;
      found.push_back(record);
    }
    if (outcome.reason.empty()) outcome.estimate = Estimate{number(found)};
    return cell(row, column, unit, setting, outcome);
  }

 private:
  Cell cell(std::string_view row, std::string_view column, std::string_view unit,
            const Setting& setting, const Outcome& outcome) const;

  std::string name_;
  std::vector<Step> steps_;
};

/// Of a step's record.
const StageMemory& stage_of(const Record& record, size_t stage);
double bytes_of(const BytesPerKind& bytes, Kind kind);

}  // namespace frugal::korthikanti2022
