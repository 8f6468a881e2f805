#pragma once
#include <string>

namespace frugal {

/// A file without its folder: what is recorded names no paths.
std::string file_name(const std::string& path);

/// Throws InputError unless a file of this name can be made, and leaves none behind: a run must not
/// find out at its end. `flag` named it; `otherwise` says what to do where it exists already.
void check_new_file(const std::string& flag, const std::string& path,
                    const std::string& otherwise = "choose another name");

/// The same for a file that --force replaces. A folder is none.
void check_output_file(const std::string& flag, const std::string& path, bool force);

/// Replaces a file by a new one, which is there whole or not at all. Throws InputError where it
/// cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace frugal
