#include "harness/huggingface/hugging_face_reader.h"

#include <algorithm>
#include <array>

namespace frugal::harness {
namespace {

/// Keys that say nothing of what a model computes in training, or that are read: those that every
/// configuration of the library can have, those of how text is generated, and names of who wrote
/// the file.
constexpr std::array known_keys = {"_attn_implementation",
                                   "_commit_hash",
                                   "_name_or_path",
                                   "architectures",
                                   "attention_bias",
                                   "attention_dropout",
                                   "attn_implementation",
                                   "attn_logit_softcapping",
                                   "bad_words_ids",
                                   "begin_suppress_tokens",
                                   "bos_token_id",
                                   "cache_implementation",
                                   "chunk_size_feed_forward",
                                   "decoder_start_token_id",
                                   "diversity_penalty",
                                   "do_sample",
                                   "dtype",
                                   "early_stopping",
                                   "encoder_no_repeat_ngram_size",
                                   "eos_token_id",
                                   "exponential_decay_length_penalty",
                                   "final_logit_softcapping",
                                   "finetuning_task",
                                   "forced_bos_token_id",
                                   "forced_eos_token_id",
                                   "head_dim",
                                   "hidden_act",
                                   "hidden_activation",
                                   "hidden_size",
                                   "id2label",
                                   "initializer_range",
                                   "intermediate_size",
                                   "is_llama_config",
                                   "label2id",
                                   "layer_types",
                                   "length_penalty",
                                   "max_length",
                                   "max_position_embeddings",
                                   "max_window_layers",
                                   "min_length",
                                   "mlp_bias",
                                   "model_type",
                                   "no_repeat_ngram_size",
                                   "num_attention_heads",
                                   "num_beam_groups",
                                   "num_beams",
                                   "num_hidden_layers",
                                   "num_key_value_heads",
                                   "num_return_sequences",
                                   "output_attentions",
                                   "output_hidden_states",
                                   "output_scores",
                                   "pad_token_id",
                                   "prefix",
                                   "pretraining_tp",
                                   "problem_type",
                                   "query_pre_attn_scalar",
                                   "remove_invalid_values",
                                   "repetition_penalty",
                                   "return_dict",
                                   "return_dict_in_generate",
                                   "rms_norm_eps",
                                   "rope_parameters",
                                   "rope_scaling",
                                   "rope_theta",
                                   "sep_token_id",
                                   "sliding_window",
                                   "suppress_tokens",
                                   "task_specific_params",
                                   "temperature",
                                   "tf_legacy_loss",
                                   "tie_word_embeddings",
                                   "tokenizer_class",
                                   "top_k",
                                   "top_p",
                                   "torch_dtype",
                                   "transformers_version",
                                   "typical_p",
                                   "unsloth_fixed",
                                   "unsloth_version",
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
