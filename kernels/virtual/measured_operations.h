#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/support/json_file.h"

namespace frugal::kernels {

/// What decides how long an operation takes, besides its size: its name, its type, and which of its
/// parts there are: "gemm f32 batched transpose_b", "softmax f32 causal dropout".
std::string form_of(const Operation& operation);

/// What an operation's time is counted in.
struct Work {
  double bytes = 0;  ///< of Operation::cost()
  /// Of a product what has a price each: being there, FLOPs, and the bytes of a, of b, and of c and
  /// what else is read or written with it: with them the rate of a product falls where one of m, n
  /// and k is small. Of fused attention all bytes stand for a's, and those of the scores, which it
  /// does not keep, for b's.
  static constexpr size_t terms = 5;
  std::array<double, terms> product{};
  bool is_product() const { return product[1] > 0; }
};
Work work_of(const Operation& operation);

/// How long operations of one form were measured to take, in seconds.
struct MeasuredForm {
  /// Bytes and seconds, both rising from point to point.
  struct Point {
    double bytes = 0, seconds = 0;
  };
  std::array<double, Work::terms> prices{};  ///< of products
  /// Of others: a line from each point to the next, on logarithmic scales. What is smaller than all
  /// takes as long as the smallest, what is larger has the rate of the largest.
  std::vector<Point> points;

  double seconds(const Work& work) const;
};

/// By form_of().
using MeasuredOperations = std::map<std::string, MeasuredForm, std::less<>>;

/// {"FORM": {"points": [[bytes, seconds], …]}, …}, or of a product {"once", "per_flop",
/// "per_byte_of_a", "per_byte_of_b", "per_byte_of_c"}. Throws InputError.
MeasuredOperations read_operations(const JsonObject& forms);
/// What read_operations() reads.
nlohmann::json to_json(const MeasuredOperations& operations);

}  // namespace frugal::kernels
