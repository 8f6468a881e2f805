#include "kernels/cpu/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace frugal::kernels {
namespace {

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

/// The number after a key in a file of "key value" lines, or `otherwise`.
int64_t value_of(const std::string& path, const std::string& key, int64_t otherwise) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(key + " ", 0) != 0) continue;
    try {
      return std::stoll(line.substr(key.size()));
    } catch (const std::exception&) {
      return otherwise;
    }
  }
  return otherwise;
}

/// A limit file's number; "max" and absent files limit nothing.
int64_t limit_of(const std::string& path) {
  int64_t limit = 0;
  return std::ifstream(path) >> limit ? limit : unlimited;
}

/// Bytes that a group at `path` below `mount`, and all groups around it, leave to this process. A
/// container may see only the mount itself, which the last round looks at.
int64_t left_in_group(const std::string& mount, std::string path, const char* limit_file,
                      const char* used_key) {
  int64_t left = unlimited;
  for (;;) {
    const std::string group = mount + path + "/";
    const int64_t limit = limit_of(group + limit_file);
    // Not the usage file, which counts cached files that the kernel gives up when asked.
    if (limit != unlimited)
      left = std::min(left, limit - value_of(group + "memory.stat", used_key, 0));
    if (path.empty()) return left;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

bool MemoryBudget::take(int64_t bytes) noexcept {
  int64_t taken = taken_;
  do {
    if (bytes > capacity_ - taken) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes));
  return true;
}

int64_t available_memory(const std::string& root) {
  constexpr int64_t kib = 1024;
  const int64_t kilobytes = value_of(root + "/proc/meminfo", "MemAvailable:", unlimited / kib);
  int64_t left = kilobytes * kib;
  // Lines of "hierarchy:controllers:path".
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty())
      left = std::min(left, left_in_group(mount, path, "memory.max", "anon"));
    if (controllers == "memory")
      left = std::min(left,
                      left_in_group(mount + "/memory", path, "memory.limit_in_bytes", "total_rss"));
  }
  return std::max<int64_t>(left, 0);
}

std::shared_ptr<MemoryBudget> machine_memory() {
  static const auto budget = [] {
    const int64_t available = available_memory();
    return std::make_shared<MemoryBudget>(available - available / 16);
  }();
  return budget;
}

}  // namespace frugal::kernels
