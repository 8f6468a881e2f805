#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace frugal::kernels::cuda {

/// An algorithm of a matrix product as cuBLASLt describes it: its documentation allows to keep
/// these words and to give them back to the same version of the library.
using Algorithm = std::array<uint64_t, 8>;

/// Products whose algorithms are kept at most, by a process and in a file: some 2 MB.
constexpr size_t most_products = 4096;

/// Where this user keeps what need not be found out again: the folder FRUGAL_CACHE, or
/// $XDG_CACHE_HOME/frugal, or ~/.cache/frugal. Empty, and nothing is kept, where FRUGAL_CACHE is
/// empty, or where none is set.
std::string cache_folder();

/// The algorithms that were chosen for products, by their BlasProblem::text(), in a file that
/// processes share. What is wrong with the file or its folder is said in one line on stderr, once:
/// a file that is not right is ignored, and one that cannot be written is given up.
class AlgorithmFile {
 public:
  using Algorithms = std::map<std::string, Algorithm>;
  /// `identity`, a line, is all that decides beside the product: GPU, driver and library. Others
  /// have another file. Without a folder there is no file. Products beyond `most` are not kept.
  AlgorithmFile(const std::string& folder, std::string identity, size_t most = most_products);

  Algorithms read();
  /// Adds to what the file has by now; the new one where it has another. The file is replaced as a
  /// whole: who reads it meanwhile has the old one or the new one.
  void add(const std::string& problem, const Algorithm& algorithm);
  /// Adds the algorithm unless the file has one of the product by now, other than `refused`; the
  /// one that it has then. So processes that time a product at once compute it alike.
  Algorithm add_first(const std::string& problem, const Algorithm& algorithm,
                      const std::optional<Algorithm>& refused);

  const std::string& path() const { return path_; }

 private:
  using Change = std::function<bool(Algorithms&)>;
  void change(const Change& change);
  void complain(const std::string& what);

  std::string path_, identity_;  // no path, no file
  size_t most_;
  bool complained_ = false, given_up_ = false;
};

}  // namespace frugal::kernels::cuda
