#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/operations.h"

/// One row per operation (and variant of it) serves every test and benchmark of operations:
/// forward against float64, gradient against finite differences, aliases, cost, roofline.
namespace frugal::kernels::table {

/// `updated` operands are read and written; `output`s must not be read, so tests poison them.
enum class Role : uint8_t { input, output, updated };

/// Distribution of an operand's elements.
enum class Draw : uint8_t {
  normal,    ///< N(0, 1)
  positive,  ///< uniform in [0.5, 1.5)
  fraction,  ///< uniform in [0, 1) / cols, as of a probability
  bit,       ///< 0 or 1
  id         ///< an integer in [−2, limit + 2), so that some are in other shards
};

struct Operand {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  Role role = Role::input;
  Draw draw = Draw::normal;
  int64_t limit = 0;  ///< of Draw::id
};

/// Operands' views by name; the empty view for a name that is not there.
class Views {
 public:
  View operator[](const std::string& name) const {
    const auto found = views_.find(name);
    return found == views_.end() ? View() : found->second;
  }
  void set(const std::string& name, const View& view) { views_[name] = view; }

 private:
  std::map<std::string, View> views_;
};

/// Operands' elements in memory order, every one representable in its operand's type.
using Values = std::map<std::string, std::vector<double>>;

/// A value, and the magnitude that its rounding errors are relative to, such as Σ|a·b| for a dot
/// product, where that is larger than the value's own.
struct Rounded {
  double value = 0, scale = 0;

  Rounded() = default;
  Rounded(double value, double scale = 0)
      : value(value), scale(scale) {}  // NOLINT: a number is one
};

/// Required results: values, and for each the magnitude that its rounding errors are relative to.
/// Elements of an operand are named by number, or in views() by reference.
class Expected {
 public:
  explicit Expected(Values before);

  const std::vector<double>& operator[](const std::string& name) const { return values_.at(name); }
  bool has(const std::string& name) const { return values_.contains(name); }
  const std::vector<double>& scale(const std::string& name) const { return scale_.at(name); }
  /// Operands as views in float64, of which a case binds its operation.
  Views views(const std::vector<Operand>& operands);

  /// Errors are relative to max(|value|, scale).
  void set(const double& element, double value, double scale = 0);
  void set(const std::string& name, int64_t i, double value, double scale = 0) {
    set(values_.at(name)[static_cast<size_t>(i)], value, scale);
  }
  /// Sets every element i of an operand to f(i).
  void set_all(const std::string& name, const std::function<Rounded(int64_t)>& f);
  /// Adds a term of a sum that may be in any order. Its magnitude is at least its own.
  void add(const double& element, double term, double magnitude = 0);
  void add(const std::string& name, int64_t i, double term, double magnitude = 0) {
    add(values_.at(name)[static_cast<size_t>(i)], term, magnitude);
  }

 private:
  struct Element {
    double &value, &scale;
  };
  Element find(const double& element);

  Values values_, scale_;
};

/// One operation at given sizes and types, with its oracle.
struct Case {
  std::vector<Operand> operands;
  /// Must use every operand.
  std::function<Operation(const Views&)> bind;
  /// Documented formula in float64; sets every output and updated element that the operation
  /// writes.
  std::function<void(Expected&)> reference;
  /// Roundings to accumulation type that one element may suffer; 0 demands the exact value of the
  /// operand's type. An element may differ from the reference by
  /// roundings · u(A) · scale + storage_roundings · u(its type) · |value|, A from its type.
  double roundings = 0;
  double storage_roundings = 1;
  /// Makes inputs that depend on others (means, masks, statistics) what a forward pass leaves.
  std::function<void(Values&)> prepare;
  /// {output, input} that may share memory.
  std::vector<std::pair<std::string, std::string>> aliases;
  /// ∂(what is differentiated)/∂output where the backward operation takes it as an attribute.
  std::map<std::string, double> cotangents;

  /// Makes f(expected, i) element i of an output, the only one.
  template <class F>
  void each(const std::string& output, const F& f) {
    reference = [=](Expected& e) { e.set_all(output, [&](int64_t i) { return f(e, i); }); };
  }
  /// Makes f(expected, operation on views in float64) the reference.
  template <class Op, class F>
  void refer(const F& f) {
    reference = [f, operands = operands, bind = bind](Expected& e) {
      f(e, std::get<Op>(bind(e.views(operands))));
    };
  }
};

struct Setting {
  DType type = DType::f32;
  int64_t rows = 1, cols = 1;
  uint64_t seed = 1;  ///< of dropout and random streams; 0: of the serial run's, unscattered
  /// A product that is added to bf16 numbers may be rounded to bf16 before, as cuBLASLt's
  /// algorithms for Hopper do (seen with 13.1, algorithm 66).
  bool rounds_before_adding = false;

  Shape shape() const { return {rows, cols}; }
  int64_t size() const { return rows * cols; }
  /// A.
  DType wide() const { return accumulation_type(type); }
  /// T or A, as gradients of parameters may have it.
  DType narrow_or_wide(bool narrow) const { return narrow ? type : wide(); }
};

struct Row {
  std::string name;
  std::function<Case(const Setting&)> build;
  /// Rows run one after the other (operands of the same name are the same) whose gradient this row
  /// computes: operand "dz" is the gradient by (or the cotangent of) their operand "z".
  std::vector<std::string> gradient_of;
  /// FLOPs and bytes by hand for Setting{bf16, 6, 4}.
  Cost by_hand;
  /// Columns at which a GPU's limits are reached.
  std::vector<int64_t> edges = {};
};

/// Rows of one operation: itself, and its variants. Each operation defines it in this folder.
template <class Op>
std::vector<Row> rows_of();

/// Rows of all operations, in the order of Operation.
const std::vector<Row>& rows();
const Row& row(const std::string& name);

/// A row's function that builds a case from the setting and from these arguments.
template <class Build, class... Arguments>
auto with(Build build, Arguments... arguments) {
  return [=](const Setting& s) { return build(s, arguments...); };
}

/// The operation on operands without memory, as on a virtual device: enough for its cost.
Operation unbacked(const Case& test_case);

/// Random elements for every operand (outputs: NaN), rounded to their type, then `prepare`d.
Values random_values(const Case& test_case, uint64_t seed);
/// The reference applied to `before`.
Expected expected(const Case& test_case, Values before);

/// Conversions to and from the bytes of a type. Integers take NaN as all bits set.
double round_to(DType type, double value);
void store(DType type, const std::vector<double>& values, void* bytes);
std::vector<double> load(DType type, const void* bytes, int64_t size);
/// Unit roundoff: half the distance from 1 to the next number. 0 for integers.
double unit_roundoff(DType type);

/// Placement of operands for a run.
struct Layout {
  bool share_aliases = false;  ///< outputs in the memory of the inputs that they may share
  int64_t shift = 0;           ///< elements by which every operand is off the 64-byte boundary
};

/// Bytes of every operand after a run.
using Memory = std::map<std::string, std::vector<std::byte>>;

struct AfterRun {
  Memory memory;
  std::vector<std::string> overwritten;  ///< "before x", "behind y": guards that are not intact
};

/// Puts the values into memory of the device, outputs poisoned with NaN and every operand between
/// guard bytes, executes the case and reads all back.
AfterRun run_guarded_case(Device& device, const Case& test_case, const Values& before,
                          const Layout& layout = {});

Values values_of(const Case& test_case, const Memory& memory);

/// None where every output is as near the expected values as the case demands and everything else
/// is unchanged; otherwise which elements differ, and the worst of them.
std::optional<std::string> disagreement(const Case& test_case, const Expected& expected,
                                        const Values& actual);

}  // namespace frugal::kernels::table
