#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/measure/statistics.h"

namespace frugal::harness {

/// Where a number comes from; never two of them in one column.
enum class Source : uint8_t { simulated, measured, formula };
constexpr Names names_of(Source) { return {"virtual", "measured", "formula"}; }

/// How a case ended; everything but `ok` has a reason.
enum class Status : uint8_t { ok, oom, skipped, failed, timeout, peer_lost, interrupted };
constexpr Names names_of(Status) {
  return {"ok", "oom", "skipped", "failed", "timeout", "peer_lost", "interrupted"};
}

/// "1" for 1, "1/4" for 4.
std::string scale_name(int64_t scale);
/// The reverse; none where the text is neither "1" nor "1/k".
std::optional<int64_t> parse_scale(std::string_view text);

enum class Verdict : uint8_t {
  reproduced,
  not_reproduced,
  undecided,
  calibrated,
  not_comparable,
  not_measurable
};
constexpr Names names_of(Verdict) {
  return {"reproduced", "not reproduced", "undecided",
          "calibrated", "not comparable", "not measurable here"};
}

/// A number of ours beside the one that it is compared with, where it comes from, and how far it
/// may be off. The verdict follows from the numbers.
struct Comparison {
  /// `direction`: on the same side of `no_effect` as the reference, however far from it.
  enum class Relation : uint8_t { about, at_least, at_most, direction };

  std::string unit;
  std::optional<double> paper;    ///< what the paper reports, where ours is the same quantity
  std::optional<double> formula;  ///< what a formula of the paper gives at `scale`; without `paper`

  std::optional<double> value;              ///< none: `reason` says why
  std::optional<Interval> interval, early;  ///< as Estimate has them
  int samples = 0;     ///< of which `value` is the median; 0 where it was not measured so
  bool timed = false;  ///< whether a clock has a part in it: measured again, it differs
  Source source = Source::simulated;
  std::string on;       ///< "virtual:a100-selene", "cpu"; empty for a formula
  int64_t scale = 1;    ///< k of the scale model 1/k
  int threads = 0;      ///< of the processor; 0 where the value does not depend on them
  bool fitted = false;  ///< whether something was fitted so that `value` meets `paper`
  /// The machine that collectives were charged to, one rank having run alone; otherwise empty.
  std::string links = {};
  std::string program = {};  ///< whose behaviour the runs had; empty: frugal's own
  /// Ids of the cases whose records it is taken from; none where it needs no record.
  std::vector<std::string> cases = {};
  std::string reason;  ///< why there is no value, or why it is not what was to be expected

  Relation relation = Relation::about;
  std::optional<double> tolerance;  ///< absolute, in `unit`; none: nothing is judged
  std::string justification;        ///< of the tolerance, one line
  /// What the number would be if what it is about had no effect.
  std::optional<double> no_effect;

  /// The paper's number, or its formula's.
  std::optional<double> reference() const { return paper ? paper : formula; }
  void set(const Estimate& estimate);

  /// The values that reproduce the reference; infinite on the side that it leaves open. That of a
  /// direction ends at the number next to `no_effect`.
  Interval band() const;
  /// Without value or reference: not measurable. Fitted: calibrated, which counts neither for nor
  /// against. Of a value with an interval: reproduced where all of it is in the band and
  /// `no_effect` is not in the interval, not reproduced where none of it is in the band, otherwise
  /// undecided. Timed without an interval: undecided. An exact value is in the band or not.
  Verdict verdict() const;
  /// Whether the verdict would be the same, and not undecided, of the interval `early`: then more
  /// rounds need not be timed (StoppingRule "decided").
  bool is_decided_early() const;
  /// About how many more rounds would decide it, by the spread of those that there are. None where
  /// it has no interval, or is at the band's edge.
  std::optional<double> rounds_to_decide() const;
  /// Why it is undecided, in words.
  std::string why_undecided() const;
  /// Whether it would be reproduced by a run in which what it is about has no effect. It would also
  /// where nobody said what that is.
  bool passes_without_effect() const;

 private:
  Verdict verdict_of(const std::optional<Interval>& known) const;
};

/// Text of the number that Comparison::rounds_to_decide() gives, in two digits.
std::string more_rounds(std::optional<double> count);

/// One number of a paper's table or figure beside ours. Names and units are those of paper.json.
struct Cell : Comparison {
  std::string artifact;  ///< "korthikanti2022/table4"
  std::string row, column;
  std::string read;        ///< "printed", "digitized", "derived"; empty where the paper has nothing
  bool paper_oom = false;  ///< the paper reports that memory ran out; without `paper`
  Status status = Status::ok;
  std::string note;  ///< what a reader of the value has to know
  /// Whether the paper's number is of another run than this one, beside which it stands.
  bool of_another_run = false;

  /// Whether the paper has something of which a verdict has to say whether it is reproduced.
  bool has_papers() const { return reference() || paper_oom; }
  /// As of all comparisons; besides, memory runs out here where it does in the paper, or not.
  /// Beside the paper's number of another run it is not comparable. None where the paper has
  /// nothing, or nobody has said how far the value may be off.
  std::optional<Verdict> verdict() const;

  /// value − reference, as percent of |reference|; in points where the unit is percent. Each is
  /// none where the other one is meant.
  std::optional<double> error_percent() const;
  std::optional<double> error_points() const;
};

/// One statement of a paper, made executable.
struct Claim : Comparison {
  std::string id, statement;
  /// Whether the paper's own contradictions predict that it is not reproduced; `reason` says how.
  bool expected = false;

  /// What a reader of the value has to know: that its communication was modelled, and on which
  /// machine. Otherwise empty.
  std::string note() const;
};

}  // namespace frugal::harness
