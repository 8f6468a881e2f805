#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "kernels/cuda/algorithm_file.h"

namespace frugal::kernels {
struct Gpu;
}  // namespace frugal::kernels

namespace frugal::kernels::cuda {

/// The algorithms that this process computes products by, on GPUs of one kind; for all threads. So
/// a product is timed once in a process, and its ranks compute it alike. What is timed nobody
/// waits for: a GPU that does may itself wait for another rank.
class Algorithms {
 public:
  /// `file` has those of earlier processes.
  explicit Algorithms(AlgorithmFile file) : file_(std::move(file)) {}

  struct Found {
    Algorithm algorithm{};
    bool read = false;  ///< from the file, and not used yet: to be checked and kept()
  };
  std::optional<Found> find(const std::string& problem);
  /// Keeps what the file had and the library accepts.
  void keep_read(const std::string& problem, const Algorithm& algorithm);
  /// Keeps what was timed, in the file too. Which one counts: where two threads have timed at once,
  /// or two processes that share the file, that of the first.
  Algorithm keep_timed(const std::string& problem, const Algorithm& algorithm);

 private:
  std::mutex mutex_;
  AlgorithmFile file_;
  std::optional<AlgorithmFile::Algorithms> of_file_;  // read when something is first looked for
  std::unordered_map<std::string, Algorithm> used_;
};

/// All that decides beside the product, in a line: the kind of GPU, the library, the driver.
std::string identity_of(const Gpu& gpu);
/// Algorithms of GPUs of one kind, for as long as the process lives.
Algorithms& algorithms_of(const Gpu& gpu);

}  // namespace frugal::kernels::cuda
