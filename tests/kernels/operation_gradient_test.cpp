// The gradient that each backward operation computes against central differences of its forward
// operation in float64: of the oracle against itself, and of the CPU's kernels against themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/cpu/device.h"
#include "tests/support/run_case.h"

namespace frugal::kernels::table {
namespace {

using Evaluate = std::function<Values(const Case&, const Values&)>;

Values by_oracle(const Case& test_case, const Values& before) {
  const Expected after = expected(test_case, before);
  Values values;
  for (const Operand& operand : test_case.operands) values[operand.name] = after[operand.name];
  return values;
}

Values by_cpu(const Case& test_case, const Values& before) {
  static CpuDevice device(1);
  return values_of(test_case, run(device, test_case, before));
}

/// Runs cases one after the other; each sees what those before it left under the same names.
Values run_chain(const std::vector<Case>& chain, Values values, const Evaluate& evaluate) {
  for (const Case& link : chain) {
    for (const auto& [name, after] : evaluate(link, values)) values[name] = after;
  }
  return values;
}

/// A row that computes a gradient, with its forward rows and the values that both start from.
class Pair {
 public:
  Pair(const Row& gradient_row, const Setting& setting, const Evaluate& evaluate)
      : evaluate_(evaluate), backward_(gradient_row.build(setting)) {
    for (const std::string& name : gradient_row.gradient_of) {
      chain_.push_back(row(name).build(setting));
      values_.merge(random_values(chain_.back(), test_seed()));
    }
    for (const auto& [name, value] : random_values(backward_, test_seed() + 1)) {
      values_[name] = value;
    }
    base_ = run_chain(chain_, values_, evaluate_);
    gradients_ = evaluate_(backward_, base_);
  }

  const Case& backward() const { return backward_; }

  /// True if the operand is the gradient by some input of the forward rows.
  bool is_gradient(const Operand& operand) const {
    return operand.role != Role::input && operand.name[0] == 'd' &&
           forward_role(operand.name.substr(1)) == Role::input;
  }

  /// Contribution of the backward operation to element i of a gradient.
  double computed(const Operand& gradient, size_t i) const {
    const double before = gradient.role == Role::updated ? base_.at(gradient.name)[i] : 0;
    return gradients_.at(gradient.name)[i] - before;
  }

  /// Fourth-order central difference of Σ cotangent · output by element i of a forward input.
  double difference(const std::string& input, size_t i) const {
    constexpr double step = 1e-3;
    const auto moved = [&](double by) {
      Values values = values_;
      values[input][i] += by * step;
      return run_chain(chain_, std::move(values), evaluate_);
    };
    const Values up = moved(1), down = moved(-1), up2 = moved(2), down2 = moved(-2);
    double sum = 0;
    for (const auto& [output, cotangent] : cotangents()) {
      for (size_t k = 0; k < cotangent.size(); ++k) {
        const double near = up.at(output)[k] - down.at(output)[k];
        const double far = up2.at(output)[k] - down2.at(output)[k];
        sum += cotangent[k] * (8 * near - far) / (12 * step);
      }
    }
    return sum;
  }

 private:
  Role forward_role(const std::string& name) const {
    for (const Case& link : chain_) {
      for (const Operand& operand : link.operands) {
        if (operand.name == name) return operand.role;
      }
    }
    return Role::updated;  // of none
  }

  /// Cotangents of the forward outputs that have one; the others' is 0.
  Values cotangents() const {
    Values found;
    for (const Operand& operand : backward_.operands) {
      const bool is_cotangent = operand.role == Role::input && operand.name[0] == 'd';
      if (is_cotangent && forward_role(operand.name.substr(1)) == Role::output) {
        found[operand.name.substr(1)] = values_.at(operand.name);
      }
    }
    for (const auto& [output, constant] : backward_.cotangents) {
      found[output].assign(base_.at(output).size(), constant);
    }
    return found;
  }

  Evaluate evaluate_;
  std::vector<Case> chain_;
  Case backward_;
  Values values_, base_, gradients_;
};

/// Number of gradients found, so that a misspelt name cannot pass for none.
int check(const Row& gradient_row, const Setting& setting, const Evaluate& evaluate) {
  SCOPED_TRACE(describe(gradient_row, setting));
  const Pair pair(gradient_row, setting, evaluate);
  int gradients = 0;
  for (const Operand& operand : pair.backward().operands) {
    if (!pair.is_gradient(operand)) continue;
    ++gradients;
    double largest = 0;
    for (size_t i = 0; i < static_cast<size_t>(operand.shape.size()); ++i) {
      largest = std::max(largest, std::abs(pair.computed(operand, i)));
    }
    EXPECT_GT(largest, 0) << operand.name;
    for (size_t i = 0; i < static_cast<size_t>(operand.shape.size()); ++i) {
      const double computed = pair.computed(operand, i);
      const double difference = pair.difference(operand.name.substr(1), i);
      EXPECT_LT(std::abs(computed - difference),
                1e-6 * std::max(std::abs(difference), 0.01 * largest))
          << operand.name << "[" << i << "]: " << computed << " but " << difference;
    }
  }
  return gradients;
}

class Gradient : public ::testing::TestWithParam<std::string> {
 protected:
  const Row& row_ = row(GetParam());
  const Setting setting_ = {DType::f64, 4, 6, test_seed()};
};

TEST_P(Gradient, OfTheOracleIsItsForwardsDifference) {
  EXPECT_GT(check(row_, setting_, by_oracle), 0);
}
TEST_P(Gradient, OfTheCpuIsItsForwardsDifference) { EXPECT_GT(check(row_, setting_, by_cpu), 0); }

std::vector<std::string> gradient_rows() {
  std::vector<std::string> names;
  for (const Row& candidate : rows()) {
    if (!candidate.gradient_of.empty()) names.push_back(candidate.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Rows, Gradient, ::testing::ValuesIn(gradient_rows()), test_name);

}  // namespace
}  // namespace frugal::kernels::table
