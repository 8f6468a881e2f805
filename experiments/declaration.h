#pragma once
#include <deque>
#include <functional>
#include <type_traits>

#include "experiments/outcome.h"
#include "experiments/policy.h"
#include "harness/measure/artifact.h"

namespace frugal::experiments {

/// How a cell's number is taken from its cases.
class Number {
 public:
  using Ended = std::vector<Found>;  ///< how each case ended, in the cell's order

  /// What `f` makes of the records of one, two or three cases, a double or an Estimate. Where one
  /// of them is not ok, the outcome is how the first such ended; what `f` refuses (InputError)
  /// failed.
  template <class F>
  requires(!std::is_same_v<F, Number>) Number(F f)
      : take_([f](const Ended& ended) {
          return of_records(ended, [&] { return apply(f, ended); });
        }) {}
  static Number of_outcomes(std::function<Outcome(const Ended&)> take) {
    Number number;
    number.take_ = std::move(take);
    return number;
  }
  Outcome operator()(const Ended& ended) const { return take_(ended); }

 private:
  Number() = default;
  static Outcome of_records(const Ended& ended, const std::function<Estimate()>& estimate);
  static Estimate estimate_of(double value) { return {value}; }
  static Estimate estimate_of(Estimate estimate) { return estimate; }
  template <class F>
  static Estimate apply(const F& f, const Ended& ended) {
    using R = const Record&;
    const auto at = [&](size_t i) -> R { return *ended.at(i).record; };
    if constexpr (std::is_invocable_v<F, R>)
      return estimate_of(f(at(0)));
    else if constexpr (std::is_invocable_v<F, R, R>)
      return estimate_of(f(at(0), at(1)));
    else
      return estimate_of(f(at(0), at(1), at(2)));
  }

  std::function<Outcome(const Ended&)> take_;
};

/// The records of an artifact's cases in one setting.
class Runs {
 public:
  Runs(const Records& records, std::string artifact, Setting setting)
      : records_(&records), artifact_(std::move(artifact)), setting_(std::move(setting)) {}

  const Setting& setting() const { return setting_; }
  Found find(const std::string& case_id) const {
    return find_case(*records_, artifact_, case_id, setting_);
  }
  /// Whether there is any record of it, also one that does not count (Records::find()).
  bool recorded(const std::string& case_id) const;
  Outcome outcome(const std::vector<std::string>& cases, const Number& number) const;

 private:
  const Records* records_;
  std::string artifact_;
  Setting setting_;
};

/// A cell as an artifact declares it.
struct DeclaredCell {
  std::string row, column, unit;
  std::vector<std::string> cases;  ///< ids
  Number number;                   ///< taken from these
  /// Whether it lacks something where its last case was not run: what is not the paper's does not,
  /// as results may be older than it.
  bool papers = true;
  std::string note = {};
  std::string paper_row = {};  ///< beside which it stands, where that is another one
  /// What a formula of the paper gives at a scale, where it prints no numbers.
  std::function<std::optional<double>(int64_t)> formula = {};
};

struct Results;
/// Claims that follow from an artifact's cells and records.
using Claims = std::function<std::vector<Claim>(const Results&)>;

/// One table or figure of a paper, declared.
struct Declaration {
  const Paper& paper;
  std::string name;  ///< in paper.json, which has its caption and numbers
  /// The program that the paper measured, as find_program() understands it: virtual cases are run
  /// with its behaviour, and without. Empty: nothing of the artifact depends on it.
  std::string program = {};
  std::function<std::vector<Case>(const Selection&)> cases = {};
  std::function<std::vector<DeclaredCell>(const Setting&)> cells = {};
  std::function<std::vector<Cell>()> formulas =
      {};  ///< cells that need no record, behind all others
  /// What the cells of these records are besides: their notes, the reasons of differences.
  std::function<void(Cell&, const DeclaredCell&, const Runs&)> complete = {};
  /// Whether the paper's numbers stand beside those of any size, as ratios do that a scale model
  /// keeps, or at full size only.
  bool any_size = false;
  /// Whether its cases on GPUs are divided among two settings: the parallel ones may be lone ranks,
  /// the others are real. A cell whose last case is in one of them is not missing from the other.
  bool divided = false;
  std::vector<Claims> claims = {};
  /// Tolerances of cells that are narrower than the policy's.
  std::function<std::optional<policy::Tolerance>(const Cell&)> narrower = {};
  /// What it draws of pipelines: the paper's timelines beside those of frugal's schedules.
  std::function<std::vector<DrawnTimeline>()> timelines = {};
  bool expects_oom = false;
  /// What is tried of a case with the program's behaviour, of which what is tried without may begin
  /// too large. Empty: the same.
  std::function<Case(Case)> of_program = {};

  std::string id() const { return paper.id() + "/" + name; }
};

/// What a declaration gives of some records.
struct Results {
  struct InSetting {
    Runs runs;
    std::vector<Cell> cells;
  };
  const Declaration& artifact;
  std::vector<InSetting> settings;
  std::vector<Cell> formulas;

  Results(const Declaration& declared, const Records& records);
  std::vector<Cell> cells() const;
  /// Why a cell is not the paper's: what the same is with the behaviour of the paper's program, or
  /// of that program's own cell how much is left that no behaviour explains. Empty where there is
  /// no program, or nothing to compare.
  std::string difference(const Cell& cell) const;
};

class DeclaredArtifact final : public Artifact {
 public:
  explicit DeclaredArtifact(Declaration declaration) : declared_(std::move(declaration)) {}

  std::string id() const override { return declared_.id(); }
  std::string title() const override { return declared_.paper.caption(declared_.name); }
  std::vector<Case> cases(const Selection& selection) const override;
  std::vector<Cell> cells(const Records& records) const override {
    return Results(declared_, records).cells();
  }
  std::vector<Claim> claims(const Records& records) const override;
  bool expects_oom() const override { return declared_.expects_oom; }
  std::string program() const override { return declared_.program; }
  std::vector<DrawnTimeline> timelines() const override {
    return declared_.timelines ? declared_.timelines() : std::vector<DrawnTimeline>{};
  }

 private:
  Declaration declared_;
};

/// Artifacts that differ in their names and in what `declare` makes of these.
class Family {
 public:
  Family(const std::vector<const char*>& names,
         const std::function<Declaration(std::string)>& declare) {
    for (const char* name : names) all_.emplace_back(declare(name));
  }
  std::vector<const Artifact*> artifacts() const {
    std::vector<const Artifact*> all;
    for (const DeclaredArtifact& one : all_) all.push_back(&one);
    return all;
  }

 private:
  std::deque<DeclaredArtifact> all_;
};

inline bool has_paper(const Cell& cell) { return cell.paper.has_value(); }

/// A claim about each cell of an artifact that it selects. How far it may be off is what the policy
/// says of the cell.
struct ClaimOfCells {
  bool (*about)(const Cell&) = has_paper;
  /// With the cell's names in braces: {artifact} ("table4"), {row}, {column}, {paper}, {unit}.
  std::string id, statement;
  Claim::Relation relation = Claim::Relation::about;
  void (*adjust)(Claim&, const Cell&) = nullptr;
};
/// Cell by cell.
Claims claims_of_cells(std::vector<ClaimOfCells> all);
/// What `claims` makes of each setting; with `full_size` of those at full size only.
Claims claims_of_settings(std::function<std::vector<Claim>(const Results::InSetting&)> claims,
                          bool full_size = false);

/// The cases that any of these cells is taken from, each once.
std::vector<std::string> cases_of(const std::vector<Cell>& cells);
/// A claim about a number that is in no cell; policy::judge() says how far it may be off.
Claim claim_of(std::string id, std::string statement, std::string unit, std::optional<double> paper,
               const Setting& setting, const Outcome& outcome);
/// The same about the number of a statement, in percent or times of what is timed.
Claim claim_of(const Statement& statement, std::string unit, const Setting& setting,
               const Outcome& outcome, const std::optional<policy::Tolerance>& stated = {});

}  // namespace frugal::experiments
