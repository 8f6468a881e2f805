// Executes the rows of the operation that operation.patch adds.
#include <cstdio>

#include "kernels/cpu/device.h"
#include "kernels/table/operation_table.h"

using namespace frugal::kernels;

int main() {
  CpuDevice device(1);
  int wrong = 0;
  for (const table::Row& row : table::rows_of<SquaredRelu>())
    for (const DType type : {DType::f32, DType::bf16, DType::f64})
      for (const bool share : {false, true}) {
        const table::Case test = row.build({type, 7, 65, 11});
        const table::Values before = table::random_values(test, 1);
        const auto after = run_guarded_case(device, test, before, {.share_aliases = share});
        auto values = table::values_of(test, after.memory);
        if (share) values["x"] = before.at("x");
        const auto difference = disagreement(test, expected(test, before), values);
        if (difference || !after.overwritten.empty()) ++wrong;
        std::printf("%s %s: %s\n", row.name.c_str(), std::string(name_of(type)).c_str(),
                    difference ? difference->c_str() : "right");
      }
  return wrong;
}
