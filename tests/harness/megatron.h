#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "harness/import/imported.h"
#include "harness/settings/settings.h"

namespace frugal::harness {

/// Arguments of Megatron-LM that are enough.
inline const std::string smallest_megatron =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 "
    "--vocab-size 256 --make-vocab-size-divisible-by 1 --hidden-dropout 0 --attention-dropout 0";

inline ImportOptions of_ranks(int64_t ranks) {
  ImportOptions options;
  options.ranks = ranks;
  return options;
}

inline Imported imported(const std::string& text, const ImportOptions& options = {}) {
  return import_configuration("megatron", text, "a.args", options);
}
/// With these arguments besides.
inline Imported with(const std::string& more, const ImportOptions& options = {}) {
  return imported(smallest_megatron + " " + more, options);
}
inline RunConfig config_of(const Imported& in) { return settings_of(in.given).config; }
inline bool has(const std::vector<Imported::Part>& parts, const std::string& said) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Imported::Part& part) { return part.said.find(said) == 0; });
}

}  // namespace frugal::harness
