#include "harness/cli/weights_flags.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/stored_weights.h"
#include "harness/cli/files.h"
#include "harness/huggingface/hugging_face_config.h"
#include "harness/place/target.h"
#include "harness/settings/models.h"
#include "kernels/support/error.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

/// Shapes do not tell everything: a folder's config.json must say the same of the model as the
/// user does, but for its sequence length.
void check_config_beside(const std::string& path, const ModelConfig& model) {
  const auto file = std::filesystem::path(path) / "config.json";
  if (!is_there(file) || naming_of(model) != Naming::hugging_face) return;
  const nlohmann::json theirs = to_hugging_face(find_model(file.string()));
  const nlohmann::json ours = to_hugging_face(model);
  for (const auto& [key, value] : theirs.items())
    if (key != "max_position_embeddings" && ours.value(key, nlohmann::json()) != value)
      throw InputError(
          fmt::format("--load-weights: {} says {} is {}, and of model {} it is {}; give --model {}",
                      file.string(), key, value.dump(), model.name,
                      ours.value(key, nlohmann::json()).dump(), path));
}

}  // namespace

void check_values(const std::string& flag, const Target& target) {
  if (target.simulated())
    throw InputError(fmt::format("{}: a virtual device has no values; use --on cpu or cuda", flag));
  if (target.modelled())
    throw InputError(fmt::format(
        "{}: one rank without its peers has no values that mean anything; leave it or --lone-rank "
        "out",
        flag));
}

void WeightsFlags::add_to(Flags& flags) {
  flags.text("--save-weights", save, "FILE",
             "Weights after the last step, in the names that --load-weights reads (safetensors)");
  flags.text("--save-tensors", save_tensors, "FILE",
             "Weights after the last step, and a microbatch's logits, loss and gradients "
             "(safetensors)");
}

void load_weights(const std::string& path, TrainingRun& run, const Target& target) {
  check_values("--load-weights", target);
  check_config_beside(path, run.config.model);
  run.weights = std::make_shared<StoredWeights>(path, run.config.model);
}

void WeightsFlags::put_into(TrainingRun& run, const Target& target) const {
  run.save_weights = save;
  run.save_tensors = save_tensors;
  for (const auto& [flag, path] : outputs()) {
    if (path.empty()) continue;
    check_values(flag, target);
    check_new_file(flag, path);
  }
  if (!save.empty() && !run.config.schedule.ties_tables && run.config.pipeline_parallel > 1 &&
      run.config.model.tied)
    throw InputError(fmt::format(
        "--save-weights: with --schedule {} the last stage's token table is one of its own, which "
        "files of a model with tied embeddings have no place for; use --save-tensors",
        run.config.schedule.name));
}

}  // namespace frugal::harness
