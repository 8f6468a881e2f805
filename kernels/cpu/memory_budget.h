#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace frugal::kernels {

/// Bytes that several allocators may have together, such as those of ranks that are threads of one
/// process. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t capacity) : capacity_(capacity) {}

  /// Counts these bytes as taken; false, and nothing counted, where they would exceed the capacity.
  bool take(int64_t bytes) noexcept;
  void give_back(int64_t bytes) noexcept { taken_ -= bytes; }

  int64_t capacity() const { return capacity_; }
  int64_t taken() const { return taken_; }

 private:
  const int64_t capacity_;
  std::atomic<int64_t> taken_ = 0;
};

/// Memory that this process may take from the machine, less a sixteenth for all that is not a
/// tensor. One budget for the whole process: ranks that share the memory are counted together.
std::shared_ptr<MemoryBudget> machine_memory();

/// Bytes the machine can give now without swapping: the kernel's estimate, or less where a control
/// group (version 1 or 2) of this process is limited to less. `root` stands for "/" in tests.
int64_t available_memory(const std::string& root = "");

}  // namespace frugal::kernels
