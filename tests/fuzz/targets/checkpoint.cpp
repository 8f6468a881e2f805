#include <nlohmann/json.hpp>

#include "harness/measure/runs/training_checkpoint.h"
#include "harness/settings/models.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// The manifest of a checkpoint that a training of the smallest model is to go on from.
void read_checkpoint(const std::string& path) {
  harness::TrainingRun run;
  run.config.model = harness::find_model("gpt-tiny");
  run.train.steps = 10;
  run.resume = path.substr(0, path.rfind('/'));
  const nlohmann::json written = to_json(harness::find_checkpoint(run));
  run.resume = scratch_file("again/step-00000002/manifest.json", written.dump());
  run.resume = run.resume.substr(0, run.resume.rfind('/'));
  require_same(written, to_json(harness::find_checkpoint(run)));
}

const bool checkpoint_added =
    add_target({"checkpoint", "step-00000002/manifest.json", read_checkpoint});

}  // namespace
}  // namespace frugal::testing
