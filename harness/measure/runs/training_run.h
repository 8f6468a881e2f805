#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/data/batch.h"
#include "engine/optimizer/train_config.h"
#include "engine/schedule/schedule.h"
#include "harness/namespace.h"

namespace frugal::engine {
class StoredWeights;
}  // namespace frugal::engine

namespace frugal::harness {

/// A schedule that is executed instead of the one that the configuration names, again and again. It
/// has the configuration's kind and shape and begins with batch 0; a run's steps are a multiple of
/// its batches.
struct OwnSchedule {
  Schedule schedule;
  std::string text;  ///< its file's
};

/// What is trained, and on what, beside the configuration.
struct Training {
  TrainConfig train;
  std::optional<OwnSchedule> own = {};
  std::optional<Text> text = {};  ///< random tokens otherwise
  std::string text_name = {};     ///< the text's file, without its folder
  int64_t eval_every = 0;         ///< steps; 0: at the end only
  int64_t last_words = 0;         ///< passages of the held-out task (LastWords); 0: none
  std::string save_tensors = {};  ///< a safetensors file; empty: none
  std::string save_weights = {};  ///< a safetensors file; empty: none
  std::string checkpoint = {};    ///< a folder for checkpoints; empty: none
  int64_t checkpoint_every = 0;   ///< steps; 0: at the end only
  std::string resume = {};        ///< a checkpoint or a folder of them to go on from; empty: none
  /// What training begins with; none: random weights.
  std::shared_ptr<StoredWeights> weights = {};

  /// Whether it leaves files behind beside its record.
  bool saves() const {
    return !save_tensors.empty() || !save_weights.empty() || !checkpoint.empty() || !resume.empty();
  }
};

/// A training of one configuration.
struct TrainingRun : Training {
  RunConfig config;
};

/// What updates weights where nothing else is given: without clipping where weights step in
/// backward, before the gradient's norm is known.
OptimizerOptions default_optimizer(const RunConfig& config);

/// Record::options: what decides a run beside its configuration.
std::map<std::string, std::string> options_of(const Training& run, const RunConfig& config);

}  // namespace frugal::harness
