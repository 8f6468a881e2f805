#pragma once
#include <chrono>
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// A bash that can do nothing but calculate and write to two pipes. The kernel refuses the rest
/// (seccomp): it starts no program, opens no file or socket, sees no folder, signals no process,
/// and has no environment. A file that it opens for writing is /dev/null; one that it opens for
/// reading does not exist. Its time, memory, processes and output are limited.
struct SealedBash {
  std::string written;   ///< to the descriptor that records are written to
  std::string messages;  ///< to stderr, from bash and from the script
  bool started = false;  ///< bash itself runs; otherwise `messages` says why it does not
  bool ended = false;    ///< by itself, within its limits
};

/// Descriptors that a script finds open.
inline constexpr int sealed_records = 50, sealed_null = 51;
/// The name of the error that starting a program ends with, as bash prints it.
inline constexpr const char* sealed_refusal = "Cannot exec a shared library directly";

/// Runs a text as `bash -c` would (`only_check`: reads it without running it, as `bash -n`). `name`
/// is the script's $0. Whatever has not ended at the deadline is killed, with all that it started.
SealedBash run_sealed_bash(const std::string& text, const std::string& name, bool only_check,
                           std::chrono::steady_clock::time_point deadline);

}  // namespace frugal::harness
