#include <fmt/format.h>

#include "kernels/cuda/attention.h"

namespace frugal::kernels::cuda {

std::string why_never_fused(const FusedAttentionNeeds& needs) {
  constexpr int64_t unit = 8;  // elements of 16 bytes
  const std::string_view otherwise =
      needs.softcap || needs.window ? "" : ", or --attention separate";
  if (needs.type != DType::bf16)
    return fmt::format("fused attention on cuda is computed in bf16, not {}; use --type bf16{}",
                       name_of(needs.type), otherwise);
  if (needs.head_size % unit != 0)
    return fmt::format(
        "fused attention on cuda has heads of multiples of {} elements, not of {}; use other "
        "--heads or --hidden{}",
        unit, needs.head_size, otherwise);
  return "";
}

}  // namespace frugal::kernels::cuda
