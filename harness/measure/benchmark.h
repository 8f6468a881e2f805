#pragma once
#include <optional>
#include <utility>

#include "harness/measure/case.h"
#include "harness/place/device_kind.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// One dimension of a benchmark, and the values that it takes.
struct BenchmarkAxis {
  std::string name;
  std::vector<std::string> values;
};

/// One value of each axis.
class Point {
 public:
  Point() = default;
  explicit Point(std::vector<std::pair<std::string, std::string>> values)
      : values_(std::move(values)) {}

  /// Throws std::out_of_range for an axis that there is not.
  const std::string& at(std::string_view axis) const;
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }
  /// The values with slashes between: a case's id.
  std::string id() const;
  /// Point without these axes.
  Point without(const std::vector<std::string>& axes) const;
  bool operator==(const Point&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

/// What a benchmark does at a point.
struct BenchmarkCase {
  RunConfig config = {};  ///< empty where no model is run
  std::function<std::unique_ptr<CaseRun>(const Target&)> make;
  std::string on = {};                   ///< the place, where the user does not choose it
  std::vector<DeviceKind> only_on = {};  ///< places that have this case; all where it is empty
};

/// What a benchmark does at a point; none where the axes' values do not go together.
using CaseAt = std::function<std::optional<BenchmarkCase>(const Point&)>;

/// The cases that others are held against: those that have one of these values on the axis, and
/// else lie where the other does. Of several it is the fastest, by work over time.
struct Reference {
  std::string axis;
  std::vector<std::string> values;
};

/// A column of a benchmark's table, made of a metric of each record.
struct ResultColumn {
  enum class Shows : uint8_t {
    value,    ///< its median
    rate,     ///< work in a unit of the metric, a time
    ratio,    ///< the metric over the reference's, by rounds
    speed,    ///< the rate over the reference's, by rounds
    finding,  ///< no metric, but Record::findings of that name
  };
  std::string name;  ///< "GFLOP/s"
  std::string metric;
  Shows shows = Shows::value;
  double unit = 1;       ///< what is 1 there, in the metric's or the rate's own unit
  bool interval = true;  ///< beside the number; a table of many columns leaves some out
  /// Metric of a ratio's control: a part of the time that is the same work in a case and in
  /// its reference (why_no_effect). Empty where there is none.
  std::string control = {};
};

/// What is measured, along which axes, and what it is held against. Rounds, intervals, records,
/// printing and the command line are the harness's.
struct Benchmark {
  std::string name;   ///< "gemm"
  std::string title;  ///< what is measured against what, in one line
  std::vector<BenchmarkAxis> axes;
  CaseAt at = {};  ///< at one point of all that the axes span
  /// Makes `at` anew for each run, instead of it, where the cases of a run share something.
  std::function<CaseAt()> at_of_a_run = {};
  /// The axes along which cases are timed by turns, in the same rounds.
  std::vector<std::string> by_turns = {};
  std::optional<Reference> reference = {};
  std::vector<ResultColumn> columns = {};
  /// What all records together say, in lines below the table.
  std::function<std::vector<std::string>(const std::vector<Record>&)> summary = {};
  std::vector<DeviceKind> places = {DeviceKind::cpu};  ///< where it can run
  bool processes = false;  ///< whether it can be run by several processes together

  std::string artifact() const { return "bench/" + name; }  ///< Record::artifact
};

using Benchmarks = std::vector<const Benchmark*>;

/// All points that the axes span, the last axis fastest.
std::vector<Point> points_of(const std::vector<BenchmarkAxis>& axes);

/// A benchmark's cases on a place ("cpu", "cuda", "virtual:…"; the cpu where it is empty), in the
/// order of its points. With a glob only those whose id it matches, and what is timed by turns with
/// them. Throws InputError for a place where it does not run, or that is not the user's to choose,
/// and for a glob that matches nothing.
std::vector<Case> cases_of(const Benchmark& benchmark, const std::string& on,
                           const std::string& glob);

}  // namespace frugal::harness
