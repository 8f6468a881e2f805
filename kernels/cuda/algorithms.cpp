#include "kernels/cuda/algorithms.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <atomic>

#include "kernels/cuda/gpus.h"
#include "kernels/cuda/kept.h"

namespace frugal::kernels::cuda {
namespace {

std::atomic<int64_t> timed_products = 0, read_products = 0;

}  // namespace

std::optional<Algorithms::Found> Algorithms::find(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (const auto found = used_.find(problem); found != used_.end())
    return Found{found->second, false};
  if (!of_file_) of_file_ = file_.read();
  if (const auto found = of_file_->find(problem); found != of_file_->end())
    return Found{found->second, true};
  return std::nullopt;
}

void Algorithms::keep_read(const std::string& problem, const Algorithm& algorithm) {
  const std::lock_guard lock(mutex_);
  if (used_.size() < most_products && used_.emplace(problem, algorithm).second) ++read_products;
}

Algorithm Algorithms::keep_timed(const std::string& problem, const Algorithm& algorithm) {
  const std::lock_guard lock(mutex_);
  if (const auto found = used_.find(problem); found != used_.end()) return found->second;
  ++timed_products;
  if (used_.size() >= most_products) return algorithm;
  std::optional<Algorithm> refused;  // read, and yet timed
  if (of_file_)
    if (const auto found = of_file_->find(problem); found != of_file_->end())
      refused = found->second;
  const Algorithm first = file_.add_first(problem, algorithm, refused);
  used_.emplace(problem, first);
  return first;
}

std::string identity_of(const Gpu& gpu) {
  return fmt::format(
      "{}, compute capability {}, {} multiprocessors; cuBLASLt {}; driver for CUDA {}", gpu.name,
      capability(gpu), gpu.multiprocessors, cublasLtGetVersion(), gpu.driver);
}

Algorithms& algorithms_of(const Gpu& gpu) {
  const std::string identity = identity_of(gpu);
  return of_process<Algorithms>(identity, AlgorithmFile(cache_folder(), identity));
}

}  // namespace frugal::kernels::cuda

namespace frugal::kernels {

GemmAlgorithms gemm_algorithms() { return {cuda::timed_products, cuda::read_products}; }

}  // namespace frugal::kernels
