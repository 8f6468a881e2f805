#pragma once
#include "experiments/outcome.h"
#include "experiments/pipedream2bw2021/paper.h"
#include "harness/artifact.h"

namespace frugal::pipedream2bw2021 {

/// One way to run a point of a figure.
struct Try {
  std::string name;  ///< within the point: "b8 m32"
  RunConfig config;
};

/// A bar or a point of a figure.
struct Point {
  std::string row, column;
  /// What is tried until one fits into memory: the point is the first that does.
  std::vector<Try> tries;
  /// The paper's row whose number it stands beside, where that is another one.
  std::string paper_row = {};
  std::string reason = {};  ///< what a reader must know of it
};

/// A figure whose points are training runs on the paper's machine, virtually: the whole model, its
/// schedule and its optimizer. It has no cases on real devices, of which the paper's are too many.
class TrainingFigure : public Artifact {
 public:
  /// Steps of 2BW. Of times, the first has the pipeline's fill and the last has nothing behind it:
  /// their median is the steady state's from five on. Both versions of the weights are there, and
  /// memory is what it remains, from two on.
  enum class Steps : uint8_t { memory = 2, times = 5 };

  TrainingFigure(std::string name, std::string unit, Steps without_flush)
      : name_(std::move(name)),
        unit_(std::move(unit)),
        steps_without_flush_(static_cast<int64_t>(without_flush)) {}

  std::string id() const override { return std::string(paper_id) + "/" + name_; }
  std::string title() const override { return paper().caption(name_); }
  bool expects_oom() const override { return true; }
  std::vector<Case> cases(const Selection& selection) const override;
  std::vector<Cell> cells(const Records& records) const override;

 protected:
  virtual std::vector<Point> points() const = 0;
  /// The point's number, from the record of the try that fits.
  virtual double value(const Record& record) const = 0;

  const std::string& name() const { return name_; }
  /// Whether memory runs out in the cells where the paper's does, and in no other.
  std::vector<Claim> oom_claims(const Records& records) const;

 private:
  Cell cell_of(const Point& point, const Setting& setting, const Records& records) const;
  Case chain(const Point& point, const Setting& setting) const;

  std::string name_, unit_;
  int64_t steps_without_flush_;
};

/// Sequences per second of all GPUs, in the steady state: a step's time is the median of its
/// record's.
double throughput(const Record& record);

/// A claim about how many times faster one of two cells is.
Claim ratio_claim(std::string id, std::string statement, double paper, const Setting& setting,
                  const std::optional<double>& of, const std::optional<double>& over);

/// How the figures train: in 16 bits, activations computed again layer by layer. `batch` sequences
/// are those of all replicas.
RunConfig pipeline_config(const Setup& setup, ScheduleKind schedule, int64_t micro_batch,
                          int64_t batch);

/// "b8 m32".
std::string name_of(const RunConfig& config);

}  // namespace frugal::pipedream2bw2021
