#pragma once
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace frugal::harness {

/// A file as a flag names it; the path is empty where the flag is not given.
struct FlagFile {
  std::string flag, path;
};

/// Throws InputError where an output is the same file as another output or an input, however they
/// are written: of two that are written one would be lost, and an input that is written is gone.
void check_distinct(const std::vector<FlagFile>& outputs, const std::vector<FlagFile>& inputs);

/// Throws InputError unless a file of this name can be made, and leaves none behind: a run must not
/// find out at its end. Of several processes the one that writes it looks. `flag` named it;
/// `otherwise` says what to do where it exists already.
void check_new_file(const std::string& flag, const std::string& path,
                    const std::string& otherwise = "choose another name");

/// Checks the name of a file that --force replaces. A folder is none.
void check_output_file(const std::string& flag, const std::string& path, bool force);

/// Replaces a file by a new one, which is there whole or not at all. Throws InputError where it
/// cannot be written.
void write_file(const std::string& path, const std::string& text);

/// The records of a folder, or of a file; a last line that was cut off is left out, with a message.
/// Throws InputError as read_records() does.
std::vector<Record> records_in(const std::string& folder);

}  // namespace frugal::harness
