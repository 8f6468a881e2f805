#pragma once
#include "experiments/outcome.h"
#include "harness/artifact.h"

namespace frugal {

/// A training step of a model as an artifact runs it, at full size.
struct Step {
  std::string id;  ///< of the case, "530B/deallocation"
  RunConfig config;
};

/// A table or figure about the memory of whole training steps, on a machine, virtually, whose limit
/// is left aside: what does not fit is a number too. On other devices it runs nothing.
class StepArtifact : public Artifact {
 public:
  /// `machine` is one of hardware/.
  StepArtifact(const Paper& paper, std::string name, std::string machine, std::vector<Step> steps)
      : paper_(paper),
        name_(std::move(name)),
        machine_(std::move(machine)),
        steps_(std::move(steps)) {}

  std::string id() const override { return paper_.id() + "/" + name_; }
  std::string title() const override { return paper_.caption(name_); }
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
      const Found one = find_case(records, id(), case_id, setting);
      if (one.record == nullptr) {
        outcome = {{}, one.status, one.reason};
        break;
      }
      found.push_back(one.record);
    }
    if (found.size() == case_ids.size()) outcome.estimate = Estimate{number(found)};
    return cell(row, column, unit, setting, outcome);
  }

 private:
  Cell cell(std::string_view row, std::string_view column, std::string_view unit,
            const Setting& setting, const Outcome& outcome) const;

  const Paper& paper_;
  std::string name_, machine_;
  std::vector<Step> steps_;
};

/// Of a step's record.
const StageMemory& stage_of(const Record& record, size_t stage);
double bytes_of(const BytesPerKind& bytes, Kind kind);

}  // namespace frugal
