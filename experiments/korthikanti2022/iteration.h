#pragma once
#include "experiments/korthikanti2022/layer_artifact.h"
#include "harness/artifact.h"

namespace frugal::korthikanti2022 {

/// A whole training iteration as the paper runs it.
struct Iteration {
  std::string_view model;
  Technique technique;
  int64_t replicas = 1;  ///< of the paper's GPUs, each with a global batch of its own
  int64_t kept = 0;      ///< microbatches in flight of which nothing is computed again (appendix C)
};

/// Within its artifact: "530B/full/x8".
std::string case_id(const Iteration& iteration);
/// All microbatches of its global batch, on the paper's machine, virtually.
Case case_of(const Iteration& iteration);

/// A table about the time of whole iterations, on the paper's machine, virtually: the global batch
/// through the whole pipeline, and the optimizer. On other devices it runs nothing.
class IterationArtifact : public Artifact {
 public:
  IterationArtifact(std::string name, std::vector<Iteration> iterations)
      : name_(std::move(name)), iterations_(std::move(iterations)) {}

  std::string id() const override { return fmt_id(); }
  std::string title() const override { return caption(name_); }
  std::vector<Case> cases(const Selection& selection) const override;
  /// Those of cells_in() in each setting.
  std::vector<Cell> cells(const Records& records) const override;

 protected:
  virtual std::vector<Cell> cells_in(const Setting& setting, const Records& records) const = 0;

  /// A cell of what `number` makes of the records of these iterations, in their order.
  template <class F, class... I>
  Cell cell(std::string_view row, std::string_view column, std::string_view unit,
            const Setting& setting, const Records& records, const F& number,
            const I&... iterations) const {
    const std::array<Found, sizeof...(I)> found{find(iterations, setting, records)...};
    Outcome outcome;
    for (const Found& one : found)
      if (one.record == nullptr)
        return make_cell(row, column, unit, setting, {{}, one.status, one.reason});
    outcome.estimate =
        Estimate{std::apply([&](const auto&... f) { return number(*f.record...); }, found)};
    return make_cell(row, column, unit, setting, outcome);
  }

  const std::string& name() const { return name_; }

 private:
  std::string fmt_id() const { return std::string(paper_id) + "/" + name_; }
  Found find(const Iteration& iteration, const Setting& setting, const Records& records) const;
  Cell make_cell(std::string_view row, std::string_view column, std::string_view unit,
                 const Setting& setting, const Outcome& outcome) const;

  std::string name_;
  std::vector<Iteration> iterations_;
};

/// Of an iteration's record.
double seconds(const Record& record);
double mfu(const Record& record);  ///< percent; model FLOPs are equation 7's
double hfu(const Record& record);  ///< percent; hardware FLOPs are equation 8's

}  // namespace frugal::korthikanti2022
