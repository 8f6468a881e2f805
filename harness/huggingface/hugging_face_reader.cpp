#include "harness/huggingface/hugging_face_reader.h"

#include <algorithm>
#include <array>

namespace frugal::harness {
namespace {

/// Keys that say nothing of what a model computes in training, or that are read.
constexpr std::array known_keys = {"_attn_implementation",
                                   "_commit_hash",
                                   "_name_or_path",
                                   "architectures",
                                   "attention_bias",
                                   "attention_dropout",
                                   "attn_implementation",
                                   "attn_logit_softcapping",
                                   "bos_token_id",
                                   "cache_implementation",
                                   "chunk_size_feed_forward",
                                   "dtype",
                                   "eos_token_id",
                                   "final_logit_softcapping",
                                   "head_dim",
                                   "hidden_act",
                                   "hidden_activation",
                                   "hidden_size",
                                   "id2label",
                                   "initializer_range",
                                   "intermediate_size",
                                   "label2id",
                                   "layer_types",
                                   "max_position_embeddings",
                                   "max_window_layers",
                                   "mlp_bias",
                                   "model_type",
                                   "num_attention_heads",
                                   "num_hidden_layers",
                                   "num_key_value_heads",
                                   "pad_token_id",
                                   "pretraining_tp",
                                   "query_pre_attn_scalar",
                                   "return_dict",
                                   "rms_norm_eps",
                                   "rope_parameters",
                                   "rope_scaling",
                                   "rope_theta",
                                   "sliding_window",
                                   "tie_word_embeddings",
                                   "torch_dtype",
                                   "transformers_version",
                                   "use_cache",
                                   "use_sliding_window",
                                   "vocab_size"};

}  // namespace

void HuggingFaceReader::check_keys() const {
  for (const auto& [key, value] : json_.items()) {
    const bool nothing = value.is_null() || value == false;  // cannot change a model
    if (!nothing && std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end())
      object_.fail(key, "is not known and may change the model; remove it where it does not");
  }
}

}  // namespace frugal::harness
