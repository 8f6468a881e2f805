#pragma once
#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "harness/namespace.h"
#include "kernels/virtual/measured_operations.h"

/// How long a device takes for each operation of a training step, so that a virtual machine can be
/// made of it that predicts what other models take.
namespace frugal::harness {

/// Operations of the same form and size (Work), and how long they took, in seconds.
using OperationSize = std::tuple<std::string, double, std::array<double, Work::terms>>;
using OperationSamples = std::map<OperationSize, std::vector<double>>;

/// A line or a product's prices for each form, from the median of each size.
MeasuredOperations fit_operations(const OperationSamples& samples);

/// Trains small models of the GPT and the Llama family with every operation timed on its own: the
/// device is waited for before and after it.
class OperationTimes {
 public:
  static constexpr int64_t largest_hidden = 1536;
  /// On the processor, with so many kernel threads; hidden sizes from 64 to `largest`.
  explicit OperationTimes(int threads, int64_t largest = largest_hidden);
  ~OperationTimes();

  /// Trains each model by a step. Its operations' times are kept or not.
  void round(bool keep);
  const OperationSamples& samples() const { return samples_; }

 private:
  struct Subject;
  OperationSamples samples_;
  bool keep_ = false;
  std::vector<std::unique_ptr<Subject>> subjects_;
};

}  // namespace frugal::harness
