#pragma once
#include <cstddef>
#include <optional>

#include "kernels/device.h"
#include "kernels/table/operation_table.h"

/// Executes rows of the table on a device and compares: tests and `frugal validate` do.
namespace frugal::kernels::table {

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
