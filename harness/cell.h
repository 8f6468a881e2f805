#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/statistics.h"

namespace frugal {

/// Where a number comes from; never two of them in one column.
enum class Source : uint8_t { simulated, measured, formula };
/// "virtual", "measured", "formula".
std::string_view name_of(Source source);

/// How a case ended; everything but `ok` has a reason.
enum class Status : uint8_t { ok, oom, skipped, failed, timeout, interrupted };
std::string_view name_of(Status status);

/// "1" for 1, "1/4" for 4.
std::string scale_name(int64_t scale);
/// The reverse; none where the text is neither "1" nor "1/k".
std::optional<int64_t> parse_scale(std::string_view text);

/// One number of a paper's table or figure beside ours. Names and units are those of paper.json.
struct Cell {
  std::string artifact;  ///< "korthikanti2022/table4"
  std::string row, column, unit;
  std::optional<double> paper;  ///< none where the paper does not report it
  std::string read;             ///< "printed", "digitized", "derived"; empty without `paper`

  std::optional<double> value;  ///< none where status is not ok
  std::optional<Interval> interval;
  Source source = Source::simulated;
  std::string on;     ///< "virtual:a100-selene", "cpu"; empty for a formula
  int64_t scale = 1;  ///< k of the scale model 1/k
  /// Whether value and paper are the same quantity. Seconds at 1/4 scale or on another machine are
  /// not what the paper printed, ratios are; an error is given for comparable cells only.
  bool comparable = true;
  Status status = Status::ok;
  std::string reason;  ///< why there is no value, or why it is not comparable

  void set(const Estimate& estimate) {
    value = estimate.value;
    interval = estimate.interval;
  }
  /// 100 · (value − paper) / |paper|.
  std::optional<double> error_percent() const;
};

enum class Verdict : uint8_t { reproduced, not_reproduced, not_measurable };
/// "reproduced", "not reproduced", "not measurable here".
std::string_view name_of(Verdict verdict);

/// One statement of a paper, made executable. The verdict follows from the numbers.
struct Claim {
  enum class Relation : uint8_t { about, at_least, at_most };

  std::string id, statement;
  std::optional<double> paper;  ///< what the paper states, in `unit`
  std::string unit;
  std::optional<double> value;  ///< none: not measurable here, with the reason
  Relation relation = Relation::about;
  double tolerance = 0;       ///< absolute, in `unit`
  std::string justification;  ///< of the tolerance, one line
  Source source = Source::simulated;
  std::string on;
  int64_t scale = 1;
  std::string reason;

  Verdict verdict() const;
};

}  // namespace frugal
