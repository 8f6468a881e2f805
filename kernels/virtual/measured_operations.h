#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/support/json_file.h"

namespace frugal::kernels {

/// Form of an operation, which besides its size decides its duration: name, type, and the parts
/// that are there: "gemm f32 batched transpose_b", "softmax f32 causal dropout".
std::string form_of(const Operation& operation);

/// Quantities that an operation's time is counted in.
struct Work {
  double bytes = 0;  ///< of Operation::cost()
  /// Terms of a product, each with a price: being there, FLOPs, and the bytes of a, of b, and of c
  /// with all else that is read or written. With them the rate of a product falls where one of m, n
  /// and k is small. Fused attention counts all bytes as a's, and those of the scores, which it
  /// does not keep, as b's.
  static constexpr size_t terms = 5;
  std::array<double, terms> product{};
  bool is_product() const { return product[1] > 0; }
};
Work work_of(const Operation& operation);

/// Measured durations of operations of one form, in seconds.
struct MeasuredForm {
  /// Bytes and seconds, both rising from point to point.
  struct Point {
    double bytes = 0, seconds = 0;
  };
  std::array<double, Work::terms> prices{};  ///< of products
  /// Durations of operations that are no products: a line from each point to the next, on
  /// logarithmic scales. Smaller ones take as long as the smallest, larger ones have the rate of
  /// the largest.
  std::vector<Point> points;

  double seconds(const Work& work) const;
};

/// Forms by form_of().
using MeasuredOperations = std::map<std::string, MeasuredForm, std::less<>>;

/// {"FORM": {"points": [[bytes, seconds], …]}, …}, or of a product {"once", "per_flop",
/// "per_byte_of_a", "per_byte_of_b", "per_byte_of_c"}. Throws InputError.
MeasuredOperations read_operations(const JsonObject& forms);
/// Document that read_operations() reads.
nlohmann::json to_json(const MeasuredOperations& operations);

}  // namespace frugal::kernels
