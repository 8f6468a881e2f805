#pragma once
#include <cstddef>
#include <string>
#include <utility>

#include "harness/namespace.h"

namespace frugal::harness {

/// A file of lines that one process at a time adds to, each on the disk when append() returns:
/// what was written stays, whenever the process ends.
class LineFile {
 public:
  /// Opens the file, with its folder where there is none. `flag` named it, for messages. Throws
  /// InputError where it cannot be written or another process has it open.
  LineFile(std::string flag, std::string path);
  /// None: it is not open.
  LineFile() = default;
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  LineFile(LineFile&& other) noexcept { *this = std::move(other); }
  LineFile& operator=(LineFile&& other) noexcept;
  ~LineFile();

  /// Adds a line; `text` has no end of line. Throws CannotWrite where that fails, and leaves no
  /// part of it.
  void append(const std::string& text);
  /// Takes away all but the first bytes. Throws InputError where that fails.
  void shorten(size_t bytes);
  /// Takes a last line away that a killed process left without its end.
  void drop_cut_line();

 private:
  [[noreturn]] void cannot_write(int error) const;

  std::string flag_, path_;
  int file_ = -1;
};

}  // namespace frugal::harness
