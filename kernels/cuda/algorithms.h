#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace frugal::kernels {
struct Gpu;
}  // namespace frugal::kernels

namespace frugal::kernels::cuda {

/// An algorithm of a matrix product as cuBLASLt describes it: its documentation allows to keep
/// these words and to give them back to the same version of the library.
using Algorithm = std::array<uint64_t, 8>;

/// The JSON file of the algorithms that processes of this user have chosen: gemm.json in the folder
/// FRUGAL_CACHE, or $XDG_CACHE_HOME/frugal, or ~/.cache/frugal. Empty, and nothing is kept, where
/// FRUGAL_CACHE is empty, or where none is set.
std::string algorithms_file();

/// The algorithms that compute products on GPUs of one kind, by BlasProblem::text(), for all
/// threads of this process. A product is timed once in a process, and its ranks compute it alike.
/// While a product is timed no lock is held: its GPU may itself wait for another rank.
///
/// Processes share a file, {identity: {product: algorithm}}, which is replaced as a whole. One line
/// on stderr says, once, that a file is wrong, and ignored, or that it cannot be written, and given
/// up.
class Algorithms {
 public:
  /// Limit of the products that are kept: some 2 MB.
  static constexpr size_t most_products = 4096;

  /// `identity` is all that decides beside the product: GPU, driver and library. Without a path
  /// there is no file.
  Algorithms(std::string path, std::string identity, size_t most = most_products)
      : path_(std::move(path)), identity_(std::move(identity)), most_(most) {}

  struct Found {
    Algorithm algorithm{};
    bool read = false;  ///< from the file, and not used yet: to be checked and kept
  };
  std::optional<Found> find(const std::string& problem);
  /// Keeps an algorithm of the file that the library accepts.
  void keep_read(const std::string& problem, const Algorithm& algorithm);
  /// Keeps an algorithm that was timed, in the file too, and returns the one that counts: of
  /// threads and processes that time a product at once, the first one's.
  Algorithm keep_timed(const std::string& problem, const Algorithm& algorithm);

 private:
  using Known = std::map<std::string, Algorithm>;
  using File = std::map<std::string, Known>;
  File read();
  Algorithm add_to_file(const std::string& problem, const Algorithm& algorithm);
  void complain(const std::string& what);

  const std::string path_, identity_;
  const size_t most_;
  std::mutex mutex_;
  std::optional<Known> of_file_;  // read when something is first looked for
  Known used_;
  bool complained_ = false, given_up_ = false;
};

/// Names the kind of GPU, the library and the driver.
std::string identity_of(const Gpu& gpu);
/// Algorithms of GPUs of one kind, for as long as the process lives.
Algorithms& algorithms_of(const Gpu& gpu);

/// One execution of a candidate, waited for.
struct Execution {
  float milliseconds = 0;  ///< from its begin on the stream to its end
  float issuing = 0;       ///< that the host took to issue it: its first time, to load it too
};

/// Executes a candidate; none where that fails.
using Execute = std::function<std::optional<Execution>(size_t candidate)>;

/// Index of the fastest candidate, the best guesses being first; none if all fail.
///
/// Each is executed once untimed, because a first execution loads its code, and then all are timed
/// once. Those that are far behind leave, and while there is time the others are timed again by
/// turns, the least time counts. What it takes is bounded, but for loading: first executions are
/// no longer begun after 300 ms of executing, of which the best three are not subject to that. What
/// by its first execution alone takes three times as long as another is not executed again, and so
/// the first round of timing takes no longer. Further rounds have 100 ms together.
std::optional<size_t> fastest(size_t count, const Execute& execute);

}  // namespace frugal::kernels::cuda
