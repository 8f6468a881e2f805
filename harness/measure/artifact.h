#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/timeline.h"
#include "harness/measure/case.h"
#include "harness/place/gpu_selection.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// Whose behaviour virtual cases have of an artifact of which the paper's program is known:
/// frugal's own, that program's, or one after the other.
enum class Programs : uint8_t { both, frugal, papers };

/// What the user asked for.
struct Selection {
  bool virtual_machine = true;
  bool cpu = true;
  std::optional<GpuSelection> cuda = {};
  /// k of the scale model 1/k, on every device; otherwise the artifact chooses (1 on a virtual
  /// machine, what a laptop can hold on a real one).
  std::optional<int64_t> scale = {};
  Programs programs = Programs::both;
};

/// When each stage of a pipeline makes which pass, and whose drawing it is: "paper" or "formula".
struct DrawnTimeline {
  Timeline timeline;
  std::string source;
};

/// One table or figure of a paper: which cases are run, and which cells and claims follow.
/// The harness owns timing, allocation, JSON and the command line.
class Artifact {
 public:
  Artifact() = default;
  Artifact(const Artifact&) = delete;
  Artifact& operator=(const Artifact&) = delete;
  virtual ~Artifact() = default;

  virtual std::string id() const = 0;  ///< "korthikanti2022/table4"
  virtual std::string title() const = 0;
  virtual std::vector<Case> cases(const Selection& selection) const = 0;
  /// For every setting in the records. A case that is missing or not ok gives a cell without value
  /// that carries the status and reason. Cells of formulas need no record.
  virtual std::vector<Cell> cells(const Records& records) const = 0;
  virtual std::vector<Claim> claims(const Records& records) const = 0;
  /// The program that the paper measured, as find_program() understands it; empty where nothing of
  /// the artifact depends on one.
  virtual std::string program() const { return ""; }
  /// Whether running out of memory is a result that its cells show, and no failure.
  virtual bool expects_oom() const { return false; }
  /// The pipelines that it draws, one above the other, in the same unit of time.
  virtual std::vector<DrawnTimeline> timelines() const { return {}; }
};

}  // namespace frugal::harness
