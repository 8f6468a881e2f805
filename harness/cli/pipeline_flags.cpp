#include "harness/cli/pipeline_flags.h"

#include <fmt/format.h>

#include "engine/schedule/check.h"
#include "engine/schedule/text.h"
#include "harness/cli/files.h"
#include "harness/names.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal {

void PipelineFlags::add_to(Flags& flags) {
  flags.integer("--pipeline-parallel", stages, 1, "Stages of the pipeline; 1 otherwise", 1 << 16);
  flags.choice(
      "--schedule", schedule, all_names<ScheduleKind>(),
      "In which order stages compute microbatches, and with which weights; 1f1b otherwise");
  flags.integer("--chunks", chunks, 1,
                "Parts of the model on each stage, with --schedule interleaved; 1 otherwise");
  flags.integer("--microbatches", microbatches, 1,
                "Microbatches per step, of each replica; 1 otherwise");
  flags.text("--schedule-file", file, "FILE",
             "A schedule of your own (docs/schedules.md), repeated until all steps are done. It "
             "says what --schedule, --pipeline-parallel, --chunks and --microbatches would, which "
             "are refused beside it; its first batch is 0, and --steps a multiple of its batches");
}

std::optional<OwnSchedule> PipelineFlags::own() const {
  if (file.empty()) return std::nullopt;
  refuse_beside_file("--schedule-file", {{"--schedule", !schedule.empty()},
                                         {"--pipeline-parallel", stages.has_value()},
                                         {"--chunks", chunks.has_value()},
                                         {"--microbatches", microbatches.has_value()}});
  const std::string text = read_text(file);
  return OwnSchedule{schedule_from_text(text, file), hash_of(text)};
}

void PipelineFlags::put_into(RunConfig& config, const std::optional<OwnSchedule>& own) const {
  if (own) {
    config.schedule = own->schedule.kind;
    config.pipeline_parallel = own->schedule.stages;
    config.chunks = own->schedule.chunks;
    config.microbatches = own->schedule.microbatches;
    return;
  }
  if (!schedule.empty()) config.schedule = *from_name<ScheduleKind>(schedule);
  config.pipeline_parallel = stages.value_or(config.pipeline_parallel);
  config.chunks = chunks.value_or(config.chunks);
  config.microbatches = microbatches.value_or(config.microbatches);
}

std::string PipelineFlags::text_of(const RunConfig& config) const {
  if (!file.empty()) return "--schedule-file " + file_name(file);
  return fmt::format("--pipeline-parallel {} --schedule {} --microbatches {}{}",
                     config.pipeline_parallel, name_of(config.schedule), config.microbatches,
                     config.chunks > 1 ? fmt::format(" --chunks {}", config.chunks) : "");
}

void refuse_beside_file(const std::string& file_flag,
                        const std::vector<std::pair<const char*, bool>>& given) {
  for (const auto& [flag, is_given] : given)
    if (is_given)
      throw InputError(
          fmt::format("{} is given with {}, which says it; leave it out", flag, file_flag));
}

void check_own(const OwnSchedule& own, const std::string& file, DeviceKind kind, int64_t steps) {
  const Schedule& schedule = own.schedule;
  // A message between GPUs lasts until it is received; elsewhere it is kept for its receiver.
  require_valid(schedule, file, kind == DeviceKind::cuda ? 0 : 1);
  if (schedule.first_batch > 0)
    throw InputError(
        fmt::format("{}: first-batch is {}, and a run begins with batch 0; write the schedule of "
                    "batches from 0 on (--first-batch 0)",
                    file, schedule.first_batch));
  if (steps % schedule.batches != 0)
    throw InputError(fmt::format(
        "--steps is {}, and the schedule of {} is of {} batches; give a multiple of {}, or write "
        "the schedule of as many batches as there are steps",
        steps, file, schedule.batches, schedule.batches));
}

}  // namespace frugal
