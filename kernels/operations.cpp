#include "kernels/operations.h"

namespace frugal::kernels {

std::string_view name_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.name; }, operation);
}

Cost cost_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.cost(); }, operation);
}

}  // namespace frugal::kernels
