#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/namespace.h"

namespace frugal::engine {

template <class T>
class Fields;

/// Task that a model learns: the token that follows (GPT), or those that are hidden (BERT).
enum class Objective : uint8_t { next_token, masked_token };
constexpr Names names_of(Objective) { return {"next-token", "masked-token"}; }

/// Layer norm, or root mean square norm (Zhang and Sennrich 2019, arXiv:1910.07467).
enum class NormKind : uint8_t { layer, rms };
constexpr Names names_of(NormKind) { return {"layer-norm", "rms-norm"}; }

/// Function between a layer's two linear maps beside attention: GELU, or a gated unit whose gate is
/// SiLU or GELU (Shazeer 2020, arXiv:2002.05202).
enum class MlpKind : uint8_t { gelu, swiglu, geglu };
constexpr Names names_of(MlpKind) { return {"gelu", "swiglu", "geglu"}; }
inline bool is_gated(MlpKind mlp) { return mlp != MlpKind::gelu; }

/// Positions of tokens: a learned vector for each, or rotated queries and keys (Su et al. 2021,
/// arXiv:2104.09864).
enum class PositionKind : uint8_t { learned, rotary };
constexpr Names names_of(PositionKind) { return {"learned", "rotary"}; }

/// Linear maps that have a bias: all, those to queries, keys and values, or none.
enum class BiasKind : uint8_t { all, qkv, none };
constexpr Names names_of(BiasKind) { return {"all", "qkv", "none"}; }

/// Angles by which the pairs of a head turn from one position to the next.
struct RotaryConfig {
  double base = 10000;  ///< pair i of d/2 turns by base^(−2i/d)
  /// Frequencies are divided by it, so that a model sees longer sequences than it has learned from:
  /// all of them (`bands` false), or as Llama 3.1 has it the slow ones, and those between
  /// partly.
  double factor = 1;
  bool bands = false;
  double low = 1, high = 4;  ///< turns within `original` between which it does so partly
  int64_t original = 8192;   ///< positions that the model has learned from

  bool operator==(const RotaryConfig&) const = default;
};

/// A transformer. Symbols in brackets are the papers'. By default a GPT-2; other families differ in
/// what stands after `objective`.
struct ModelConfig {
  std::string name;
  int64_t layers = 0;      ///< [L]
  int64_t hidden = 0;      ///< [h], mst2024: [d]
  int64_t heads = 0;       ///< [a], of queries
  int64_t sequence = 0;    ///< [s], tokens
  int64_t vocabulary = 0;  ///< [v]
  double dropout = 0.1;    ///< probability, of attention and of hidden states
  bool causal = true;      ///< whether a position sees no later one
  Objective objective = Objective::next_token;

  int64_t kv_heads = 0;      ///< heads of keys and of values; 0: as many as of queries
  int64_t head_width = 0;    ///< 0: hidden / heads
  int64_t intermediate = 0;  ///< [I], between the linear maps of an MLP; 0: 4 · hidden
  NormKind norm = NormKind::layer;
  double norm_epsilon = 1e-5;
  bool post_norms = false;  ///< a norm behind attention and one behind the MLP besides
  MlpKind mlp = MlpKind::gelu;
  BiasKind bias = BiasKind::all;
  PositionKind positions = PositionKind::learned;
  RotaryConfig rotary{};
  bool tied = true;               ///< the output layer multiplies by the token embedding
  bool scaled_embedding = false;  ///< by √h, before the first layer
  double query_scale = 0;         ///< of scores: 1/√query_scale; 0: 1/√(head size)
  double attention_softcap = 0;   ///< of scores: cap · tanh(x / cap); 0: none
  double logit_softcap = 0;       ///< of logits; 0: none
  /// Positions that one sees at most, itself included, in every `window_period`-th layer from the
  /// first on; 0: all before it.
  int64_t window = 0, window_period = 1;

  int64_t head_size() const { return head_width > 0 ? head_width : hidden / heads; }
  int64_t key_value_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  /// [G] heads of queries that share one of keys and values.
  int64_t queries_per_group() const { return heads / key_value_heads(); }
  int64_t intermediate_size() const { return intermediate > 0 ? intermediate : 4 * hidden; }
  /// Difference of a norm's gain from what is stored of it: Gemma 2 stores how far it is from 1.
  float norm_offset() const { return post_norms ? 1 : 0; }
  /// Columns of all heads of queries together.
  int64_t query_size() const { return heads * head_size(); }
  /// Columns of queries, keys and values together.
  int64_t qkv_size() const { return (heads + 2 * key_value_heads()) * head_size(); }
  /// Positions that one of this layer sees at most; 0: all.
  int64_t window_of(int64_t layer) const { return layer % window_period == 0 ? window : 0; }

  /// h, s and v divided by k, and so is what follows h; L and a kept, so that a·s/h, s/h and v/(hL)
  /// stay what they were. Throws InputError where k does not divide them, or the heads what is left
  /// of h; it names the nearest smaller scale that works.
  ModelConfig scaled(int64_t k) const;
  /// Throws InputError that says which rule of a model is broken.
  void validate() const;

  static void describe(Fields<ModelConfig>& fields);
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace frugal::engine
