#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/measure/runs/training_run.h"
#include "harness/settings/settings.h"

namespace frugal::harness {

/// Where the settings' run takes place, with as many threads as there are where none are given.
/// Throws InputError where there are no threads to choose.
TargetOptions place_of(const RunSettings& settings);
/// Target of settings. Throws InputError where the model is missing, and for what is no place.
std::unique_ptr<Target> target_of(const RunSettings& settings);

/// The run. Throws InputError for a configuration that is wrong, here or anywhere, before anything
/// is written.
TrainingRun training_run(const RunSettings& settings, const Target& target);

/// Says what is right and perhaps not meant: with the default of --clip a schedule without a flush
/// waits as if it had one.
void warn_of_clipping(const TrainingRun& run);

/// The type of weights and activations where it is not given: bf16, but f32 on the processor and on
/// a virtual machine whose operations were measured in it alone.
DType default_type(const Target& target);

/// How attention computes where that is not given: fused where a model has rotary positions,
/// because those are trained on sequences whose scores have no place.
AttentionKind default_attention(const ModelConfig& model);

/// Throws InputError for the first of these keys that is given beside the flag of a file that says
/// the same.
void refuse_beside_file(const std::string& file_flag,
                        const std::vector<std::pair<std::string, bool>>& given);

/// The settings of a configuration that was chosen, not given: its command (command_flags) says
/// what is not as it is by default.
RunSettings settings_with(RunSettings settings, const RunConfig& config);

/// The flags that give this run again: " --model 22B --on virtual:a100-selene …", what was given
/// and what is not as it is by default, of `settings` resolved to `run` on `target`. Files stand
/// without their folders.
std::string command_flags(const RunSettings& settings, const TrainingRun& run,
                          const Target& target);
/// Flags of settings that are not resolved.
std::string command_flags(const RunSettings& settings);

/// Where what a command writes comes from: "command", "on", "device", "source", "program", and the
/// hash of a "schedule_file". `more` are flags of the command's own: " --svg x.svg".
std::map<std::string, std::string> about(std::string_view command, const RunSettings& settings,
                                         const TrainingRun& run, const Target& target,
                                         const std::string& more = "");

}  // namespace frugal::harness
