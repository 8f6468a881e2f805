#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/flags.h"
#include "harness/training.h"

namespace frugal {

/// The flags that say how the stages of a pipeline divide a batch between them: a schedule by its
/// kind and shape, or one of the user's own in a file, which says all of that.
struct PipelineFlags {
  std::string schedule, file;  // empty where they are not given
  std::optional<int> stages, chunks;
  std::optional<int64_t> microbatches;

  void add_to(Flags& flags);

  /// The file's schedule; none without a file. Throws InputError where it cannot be read, and where
  /// a flag beside it says what it says.
  std::optional<OwnSchedule> own() const;
  /// Kind and shape: the file's, or the flags'.
  void put_into(RunConfig& config, const std::optional<OwnSchedule>& own) const;
  /// The flags that give this configuration again, the file without its folder.
  std::string text_of(const RunConfig& config) const;
};

/// Throws InputError for the first of these flags that is given beside the flag of a file that says
/// the same.
void refuse_beside_file(const std::string& file_flag,
                        const std::vector<std::pair<const char*, bool>>& given);

/// Throws InputError where a schedule is wrong, begins later than a run does, or does not fit so
/// many steps: before anything is run. `file` is what messages call it.
void check_own(const OwnSchedule& own, const std::string& file, DeviceKind kind, int64_t steps);

}  // namespace frugal
