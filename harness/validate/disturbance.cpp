#include "harness/validate/disturbance.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

namespace frugal::harness {

std::string Disturbance::text() const {
  if (!known) return "what else the processors did is not known";
  return fmt::format("other processes had {:.0f} % of the processors' time, other systems {:.0f} %",
                     100 * others, 100 * steal);
}

bool is_guest(const std::string& flags) {
  std::istringstream words(flags);
  const std::istream_iterator<std::string> begin(words), end;
  return std::find(begin, end, "hypervisor") != end;
}

bool is_guest() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("flags")) return is_guest(line);
  return false;
}

ProcessorTimes parse_processor_times(const std::string& line) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  std::array<int64_t, 8> ticks{};  // user, nice, system, idle, iowait, irq, softirq, steal
  for (int64_t& tick : ticks)
    if (!(words >> tick)) return {};
  ProcessorTimes times;
  for (const int64_t tick : ticks) times.total += tick;
  times.steal = ticks[7];
  times.busy = times.total - ticks[3] - ticks[4] - times.steal;
  times.known = name == "cpu";
  return times;
}

ProcessorTimes ProcessorTimes::now() {
  std::ifstream in("/proc/stat");
  std::string line;
  std::getline(in, line);
  ProcessorTimes times = parse_processor_times(line);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  times.own = (seconds(usage.ru_utime) + seconds(usage.ru_stime)) *
              static_cast<double>(sysconf(_SC_CLK_TCK));
  return times;
}

Disturbance ProcessorTimes::since(const ProcessorTimes& then) const {
  const auto all = static_cast<double>(total - then.total);
  if (!known || !then.known || all <= 0) return {};
  const double others = static_cast<double>(busy - then.busy) - (own - then.own);
  return {.others = std::max(0.0, others / all),
          .steal = static_cast<double>(steal - then.steal) / all,
          .known = true};
}

}  // namespace frugal::harness
