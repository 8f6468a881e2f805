#include "harness/measure/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "harness/place/processes.h"

namespace frugal::harness {

Progress::Progress(size_t total)
    : total_(total),
      terminal_(Processes::speaks() && isatty(STDERR_FILENO) == 1),
      silent_(!Processes::speaks()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::draw(const std::string& what) {
  if (!terminal_) return;
  constexpr size_t width = 30;
  const size_t full = total_ == 0 ? width : done_ * width / total_;
  fmt::print(stderr, "\r\x1b[K[{:=<{}}{: <{}}] {}/{} {:.60}", "", full, "", width - full, done_,
             total_, what);
  std::fflush(stderr);
}

void Progress::working_on(const std::string& what) { draw(what); }

void Progress::reached(size_t done, size_t total, const std::string& what) {
  done_ = done;
  total_ = total;
  const auto every = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(3000);
  if (silent_ || Clock::now() - drawn_ < every) return;
  drawn_ = Clock::now();
  if (terminal_)
    draw(what);
  else
    fmt::print(stderr, "[{}/{}] {}\n", done_, total_, what);
}

void Progress::finished(const std::string& what, const std::string& outcome) {
  ++done_;
  if (silent_) return;
  if (terminal_)
    draw(what);
  else
    fmt::print(stderr, "[{}/{}] {}: {}\n", done_, total_, what, outcome);
}

void Progress::note(const std::string& line) {
  clear();
  if (!silent_) fmt::print(stderr, "{}\n", line);
}

void Progress::note_once(const std::string& line) {
  if (noted_.insert(line).second) note(line);
}

}  // namespace frugal::harness
