#include "kernels/cuda/algorithms.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/gpus.h"
#include "kernels/cuda/of_process.h"

namespace frugal::kernels::cuda {
namespace {

std::atomic<int64_t> timed_products = 0, read_products = 0;

/// Keeps other processes, and other threads, from changing a file, while it exists. Whoever has it
/// needs a moment; one that is held longer is not waited for.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    constexpr int attempts = 100;
    for (int i = 0; file_ >= 0 && !held_ && i < attempts; ++i) {
      held_ = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
      if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (file_ >= 0) ::close(file_);
  }
  bool held() const { return held_; }

 private:
  int file_;
  bool held_ = false;
};

/// Returns whether the file has this text now. Its folder has a temporary one meanwhile.
bool replace(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}", path, ::getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (out && !error) return true;
  std::filesystem::remove(temporary, error);
  return false;
}

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string algorithms_file() {
  std::string folder = value_of("FRUGAL_CACHE");
  if (std::getenv("FRUGAL_CACHE") == nullptr) {
    if (const std::string caches = value_of("XDG_CACHE_HOME"); !caches.empty())
      folder = caches + "/frugal";
    else if (const std::string home = value_of("HOME"); !home.empty())
      folder = home + "/.cache/frugal";
  }
  return folder.empty() ? "" : folder + "/gemm.json";
}

std::optional<Algorithms::Found> Algorithms::find(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (const auto found = used_.find(problem); found != used_.end())
    return Found{found->second, false};
  if (!of_file_) of_file_ = read()[identity_];
  if (const auto found = of_file_->find(problem); found != of_file_->end())
    return Found{found->second, true};
  return std::nullopt;
}

void Algorithms::keep_read(const std::string& problem, const Algorithm& algorithm) {
  const std::lock_guard lock(mutex_);
  if (used_.size() < most_ && used_.emplace(problem, algorithm).second) ++read_products;
}

Algorithm Algorithms::keep_timed(const std::string& problem, const Algorithm& algorithm) {
  const std::lock_guard lock(mutex_);
  if (const auto found = used_.find(problem); found != used_.end()) return found->second;
  ++timed_products;
  if (used_.size() >= most_) return algorithm;
  return used_[problem] = add_to_file(problem, algorithm);
}

/// Returns the file's by now, unless it is one that was read before and refused.
Algorithm Algorithms::add_to_file(const std::string& problem, const Algorithm& algorithm) {
  if (path_.empty() || given_up_) return algorithm;
  std::error_code error;  // where there is no folder, there is no lock
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const FileLock lock(path_ + ".lock");
  given_up_ = !lock.held();
  if (lock.held()) {
    File all = read();
    Known& known = all[identity_];
    if (const auto found = known.find(problem); found != known.end()) {
      const auto refused = of_file_ ? of_file_->find(problem) : Known::iterator();
      if (!of_file_ || refused == of_file_->end() || refused->second != found->second)
        return found->second;
    } else if (known.size() >= most_) {
      return algorithm;
    }
    known[problem] = algorithm;
    given_up_ = !replace(path_, nlohmann::json(all).dump());
  }
  if (given_up_)
    complain("cannot be written; choices are not kept (FRUGAL_CACHE names another folder)");
  return algorithm;
}

Algorithms::File Algorithms::read() {
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return {};
  try {
    std::ifstream in(path_);
    return nlohmann::json::parse(in).get<File>();
  } catch (const std::exception&) {
    complain("is not what this program has written, and ignored; the next product replaces it");
    return {};
  }
}

void Algorithms::complain(const std::string& what) {
  if (!complained_) fmt::print(stderr, "frugal: {} {}\n", path_, what);
  complained_ = true;
}

std::string identity_of(const Gpu& gpu) {
  return fmt::format(
      "{}, compute capability {}, {} multiprocessors; cuBLASLt {}; driver for CUDA {}", gpu.name,
      capability(gpu), gpu.multiprocessors, cublasLtGetVersion(), gpu.driver);
}

Algorithms& algorithms_of(const Gpu& gpu) {
  const std::string identity = identity_of(gpu);
  return of_process<Algorithms>(identity, algorithms_file(), identity);
}

namespace {

constexpr float enough_first = 300, enough_further = 100;  // milliseconds
constexpr size_t certain = 3;                              // are executed however long that takes
constexpr int most_rounds = 5;
/// Times the best: what a first execution is compared by is rougher than what is timed.
constexpr float hopeless_at_first = 3;
float hopeless(int rounds) { return 1 + 1 / static_cast<float>(rounds); }

struct Candidate {
  size_t index;
  float at_least, at_most;  // milliseconds, by its first execution
  float time = HUGE_VALF;   // the least
};

float least(const std::vector<Candidate>& candidates, float Candidate::*time) {
  float least = HUGE_VALF;
  for (const Candidate& c : candidates) least = std::min(least, c.*time);
  return least;
}

/// Executes each candidate once. Loading while a stream is idle counts as time on it, but never
/// more than the host took.
std::vector<Candidate> executed_once(size_t count, const Execute& execute) {
  std::vector<Candidate> candidates;
  float spent = 0;
  for (size_t i = 0; i < count && (candidates.size() < certain || spent < enough_first); ++i) {
    const auto first = execute(i);
    if (!first) continue;
    const float at_least = std::max(0.0F, first->milliseconds - first->issuing);
    candidates.push_back({.index = i, .at_least = at_least, .at_most = first->milliseconds});
    spent += at_least;
  }
  const float limit = hopeless_at_first * least(candidates, &Candidate::at_most);
  std::erase_if(candidates, [&](const Candidate& c) { return c.at_least > limit; });
  return candidates;
}

/// Milliseconds that it took. Who fails now leaves.
float time_each(std::vector<Candidate>& candidates, const Execute& execute) {
  float spent = 0;
  std::erase_if(candidates, [&](Candidate& c) {
    const auto execution = execute(c.index);
    if (!execution) return true;
    c.time = std::min(c.time, execution->milliseconds);
    spent += execution->milliseconds;
    return false;
  });
  return spent;
}

float cost(const std::vector<Candidate>& candidates) {
  float sum = 0;
  for (const Candidate& c : candidates) sum += c.time;
  return sum;
}

}  // namespace

std::optional<size_t> fastest(size_t count, const Execute& execute) {
  std::vector<Candidate> candidates = executed_once(count, execute);
  float spent = 0;
  for (int round = 1; round <= most_rounds && candidates.size() > 1; ++round) {
    if (round > 1 && spent + cost(candidates) > enough_further) break;
    const float took = time_each(candidates, execute);
    if (round > 1) spent += took;
    const float limit = hopeless(round) * least(candidates, &Candidate::time);
    std::erase_if(candidates, [&](const Candidate& c) { return c.time > limit; });
  }
  const auto best =
      std::min_element(candidates.begin(), candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  if (best == candidates.end()) return std::nullopt;
  return best->index;
}

}  // namespace frugal::kernels::cuda

namespace frugal::kernels {

GemmAlgorithms gemm_algorithms() { return {cuda::timed_products, cuda::read_products}; }

}  // namespace frugal::kernels
