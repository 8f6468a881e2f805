#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "harness/cli/files.h"
#include "harness/cli/memory_flags.h"
#include "harness/cli/model_flags.h"
#include "harness/cli/pipeline_flags.h"

namespace frugal {

/// The flags that describe a training run and where it takes place, for all commands that train:
/// what the user said, and what follows from it.
struct RunFlags {
  ModelFlags model;
  PipelineFlags pipeline;
  MemoryFlags memory;
  std::string on = "virtual", hardware, lone_rank, type = "f32", optimizer = "adamw", text;
  std::string context;  // empty where it is not given
  std::optional<int64_t> steps, warm_up;
  OptimizerOptions options;
  std::optional<double> momentum;  // of momentum only
  std::optional<int> threads;
  std::optional<double> deadline;
  RunConfig config;  // but for what other members say
  bool pin = false;

  void add_to(Flags& flags);

  /// The files that are read.
  std::vector<FlagFile> inputs() const;
  /// Throws InputError where the model is missing, and for what is no place.
  Target target() const;
  /// The run. Throws InputError for a configuration that is wrong, here or anywhere, before
  /// anything is written.
  TrainingRun run(const Target& target) const;
  /// Says what is right and perhaps not meant: with the default of --clip a schedule without a
  /// flush waits as if it had one.
  static void warn(const TrainingRun& run);
  /// The flags that describe this run again: "--model 22B …". Files stand without their folders.
  std::string text_of(const TrainingRun& run, const Target& target) const;
  /// Where what a command writes comes from: "command", "on", "device", "source", "program", and
  /// the hash of a "schedule_file". `more` are flags of the command's own: " --svg x.svg".
  std::map<std::string, std::string> about(std::string_view command, const TrainingRun& run,
                                           const Target& target,
                                           const std::string& more = "") const;
};

}  // namespace frugal
