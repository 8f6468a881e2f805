#pragma once
#include <chrono>
#include <cstddef>
#include <set>
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// How far a command is, on stderr: a bar where that is a terminal, otherwise one line per finished
/// case.
class Progress {
 public:
  explicit Progress(size_t total);
  /// One that says nothing.
  Progress() : total_(0), terminal_(false), silent_(true) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// So many cases more than was known.
  void more(size_t cases) { total_ += cases; }
  void working_on(const std::string& what);
  /// So many cases are finished, of so many: for what has thousands of them. Where stderr is no
  /// terminal, a line every few seconds.
  void reached(size_t done, size_t total, const std::string& what);
  void finished(const std::string& what, const std::string& outcome);
  /// A line that stays.
  void note(const std::string& line);
  /// The same, where it has not been said yet.
  void note_once(const std::string& line);
  /// Takes the bar away, before other output.
  void finish() { clear(); }

 private:
  void draw(const std::string& what);
  void clear();

  size_t total_, done_ = 0;
  bool terminal_, silent_ = false;
  using Clock = std::chrono::steady_clock;
  Clock::time_point drawn_ = Clock::now();  ///< by reached()
  std::set<std::string> noted_;
};

}  // namespace frugal::harness
