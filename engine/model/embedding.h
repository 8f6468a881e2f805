#pragma once
#include <optional>

#include "engine/model/parameter.h"
#include "engine/model/table_names.h"

namespace frugal::engine {

/// A table of all tokens, [v, h], divided by its rows: what the embedding reads, or the output
/// layer multiplies by.
Parameter make_token_table(Rank& rank, const std::string& name);
/// First token of this rank's shard of it.
int64_t first_token(const Rank& rank);

/// Token embedding, its vocabulary divided over the tensor-parallel group, plus positions where the
/// model learns these, then dropout.
class InputEmbedding {
 public:
  struct Saved {
    Tensor ids;   // [s, b] i32, the caller's
    Tensor mask;  // [s/t, b, h] u8, where masks are stored
  };

  explicit InputEmbedding(Rank& rank);

  /// ids [s, b] i32 → [s/t, b, h].
  Tensor forward(const Pass& outer, const Tensor& ids, Saved& saved) const;
  void backward(const Pass& outer, const Tensor& dy, Saved saved) const;

  /// [v/t, h]; the output layer uses it again.
  Parameter& table() { return table_; }
  const Parameter& table() const { return table_; }

  ParameterList parameters() { return with_optional(table_, positions_); }

 private:
  float scale_;  // of what the table has
  Parameter table_;
  std::optional<Parameter> positions_;
};

}  // namespace frugal::engine
