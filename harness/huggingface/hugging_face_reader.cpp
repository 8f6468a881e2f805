#include "harness/huggingface/hugging_face_reader.h"

#include <algorithm>
#include <array>

namespace frugal::harness {
namespace {

/// Keys that say nothing of what a model computes in training, or that are read: those that every
/// configuration of the library can have, those of how text is generated, and names of who wrote
/// the file.
constexpr std::array known_keys = {
    "attention_bias", "attention_dropout", "attn_logit_softcapping", "final_logit_softcapping",
    "head_dim", "hidden_act", "hidden_activation", "hidden_size", "initializer_range",
    "intermediate_size", "is_llama_config", "layer_types", "max_position_embeddings",
    "max_window_layers", "mlp_bias", "num_attention_heads", "num_hidden_layers",
    "num_key_value_heads", "pretraining_tp", "query_pre_attn_scalar", "rms_norm_eps",
    "rope_parameters", "rope_scaling", "rope_theta", "sliding_window", "tie_word_embeddings",
    "use_sliding_window", "vocab_size",
    // Of every configuration.
    "_attn_implementation", "architectures", "attn_implementation", "bos_token_id",
    "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "eos_token_id", "finetuning_task",
    "id2label", "label2id", "model_type", "output_attentions", "output_hidden_states",
    "output_scores", "pad_token_id", "problem_type", "return_dict", "sep_token_id",
    "task_specific_params", "tf_legacy_loss", "tokenizer_class", "torch_dtype", "use_cache",
    // Of how text is generated.
    "bad_words_ids", "begin_suppress_tokens", "cache_implementation", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups",
    "num_beams", "num_return_sequences", "prefix", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
    // Of who wrote the file.
    "_commit_hash", "_name_or_path", "transformers_version", "unsloth_fixed", "unsloth_version"};

}  // namespace

void HuggingFaceReader::check_keys() const {
  for (const auto& [key, value] : json_.items()) {
    const bool nothing = value.is_null() || value == false;  // cannot change a model
    if (!nothing && std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end())
      object_.fail(key, "is not known and may change the model; remove it where it does not");
  }
}

}  // namespace frugal::harness
