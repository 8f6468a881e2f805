#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "harness/import/megatron_reader.h"
#include "harness/settings/value_type.h"
#include "kernels/support/error.h"

/// What several of Megatron-LM's arguments together say of the model.
namespace frugal::harness {
namespace {

struct KnownTokenizer {
  std::string_view type;
  int64_t tokens;
};

/// Those whose vocabulary is published with the tokenizer and the same in every file.
constexpr std::array known_tokenizers = {KnownTokenizer{"GPT2BPETokenizer", 50257},
                                         KnownTokenizer{"BertWordPieceLowerCase", 30522},
                                         KnownTokenizer{"BertWordPieceCase", 28996}};

}  // namespace

void MegatronReader::read_sizes() {
  if (const auto wide = count("--ffn-hidden-size")) {
    out.add(said("--ffn-hidden-size"), "intermediate_size", *wide);
  } else if (on("--swiglu")) {
    out.assume("intermediate_size", bounded_product({size("hidden_size"), 8}) / 192 * 64,
               "8/3 of the hidden size, rounded down to a multiple of 64: Megatron-LM's default "
               "with --swiglu");
  }
}

/// The name that forks have for a gated MLP. Its intermediate size is 4 hidden sizes by default.
void MegatronReader::read_gate() {
  const char* const name = "--glu-activation";
  if (!has(name)) return;
  const std::string kind = lower(*text(name));
  if (kind != "swiglu" && kind != "geglu" && kind != "reglu" && kind != "liglu")
    fail(fmt::format("{}: it must be swiglu, geglu, reglu or liglu", said(name)));
  if (on("--swiglu") || on("--quick-geglu"))
    fail(fmt::format("{} and {} exclude each other", said(name),
                     on("--swiglu") ? "--swiglu" : "--quick-geglu"));
  const bool known = kind == "swiglu" || kind == "geglu";
  out.add(said(name), "mlp", known ? kind : "geglu",
          known ? "" : "another function between products of the same sizes");
}

void MegatronReader::read_heads() {
  const char* const of_forks = "--num-key-value-heads";
  if (has(of_forks)) {
    const int64_t groups = *count(of_forks);
    if (has("--num-query-groups") && count("--num-query-groups") != groups)
      fail(fmt::format("{} and {} differ; give one", said(of_forks), said("--num-query-groups")));
    out.add(said(of_forks), "key_value_heads", groups);
    for (const char* name : {"--group-query-attention", "--num-query-groups"})
      if (has(name)) out.add(said(name), "key_value_heads", groups);
    return;
  }
  const bool grouped = on("--group-query-attention");
  const int64_t groups = count("--num-query-groups").value_or(1);
  if (grouped) {
    out.add(has("--num-query-groups")
                ? fmt::format("{} {}", said("--group-query-attention"), said("--num-query-groups"))
                : said("--group-query-attention"),
            "key_value_heads", groups);
  } else if (has("--num-query-groups")) {
    out.same.push_back({said("--num-query-groups"), "--group-query-attention is not there"});
  }
}

void MegatronReader::read_rotary() {
  nlohmann::json rotary = {{"base", number("--rotary-base").value_or(10000)}};
  std::vector<std::string> parts;
  for (const char* name : {"--rotary-base", "--use-rope-scaling", "--rope-scaling-factor",
                           "--rotary-seq-len-interpolation-factor"})
    if (has(name)) parts.push_back(said(name));
  if (on("--use-rope-scaling"))
    rotary.update({{"factor", number("--rope-scaling-factor").value_or(8)},
                   {"bands", {{"low", 1.0}, {"high", 4.0}, {"original", 8192}}}});
  else if (const auto factor = number("--rotary-seq-len-interpolation-factor"))
    rotary["factor"] = *factor;
  if (!parts.empty()) out.add(fmt::format("{}", fmt::join(parts, " ")), "rotary", rotary);
}

void MegatronReader::read_positions() {
  const char* const name = "--position-embedding-type";
  const std::string type =
      word(name,
           {"learned_absolute", "rope", "mrope", "yarn", "relative", "none", "alibi", "absolute",
            "rotary"},
           on("--use-rotary-position-embeddings") ? "rope" : "learned_absolute");
  const char* const none = "--no-position-embedding";
  const bool rotary = type == "rope" || type == "rotary";  // the latter of forks, as is "absolute"
  const bool learned = (type == "learned_absolute" || type == "absolute") && !has(none);
  if (learned) {
    if (has(name)) out.add(said(name), "positions", "learned");
  } else if (rotary) {
    derive(has(name) ? name : "--use-rotary-position-embeddings", "positions", "rotary", "");
  } else {
    const char* const by = has(name) ? name : none;
    miss(by,
         "frugal has learned and rotary positions; rotary ones stand in, which have no weights "
         "either");
    out.assume("positions", "rotary", fmt::format("stands in for {}", said(by)));
  }
  for (const char* other : {none, "--use-rotary-position-embeddings"})
    if (has(other) && rotary && has(name))
      out.same.push_back({said(other), "positions are rotary"});
  if (!learned) {
    read_rotary();
  } else {
    for (const char* other : {"--rotary-base", "--use-rope-scaling", "--rope-scaling-factor",
                              "--rotary-seq-len-interpolation-factor"})
      if (has(other)) out.same.push_back({said(other), "positions are learned"});
  }
  const auto most = count("--max-position-embeddings");
  if (!most) return;
  if (!learned || *most == size("sequence_length"))
    out.same.push_back({said("--max-position-embeddings"),
                        learned ? "as many as sequence_length" : "positions have no table"});
  else
    miss("--max-position-embeddings",
         fmt::format("rows of the positions' table; frugal's has sequence_length, {}",
                     size("sequence_length")));
}

void MegatronReader::read_dropout() {
  const char* const hidden = "--hidden-dropout";
  const char* const attention = "--attention-dropout";
  const double of_hidden = number(hidden).value_or(0.1),
               of_attention = number(attention).value_or(0.1);
  derive(hidden, "dropout", of_hidden,
         has(hidden) ? "" : "Megatron-LM's default of --hidden-dropout");
  if (of_hidden != of_attention) {
    const std::string what = fmt::format(
        "frugal has one probability, for hidden states and attention; {} stands for both",
        of_hidden);
    if (has(attention))
      miss(attention, what);
    else
      out.missing.push_back({fmt::format("{} {}, by default", attention, of_attention), what});
  } else if (has(attention)) {
    out.add(said(attention), "dropout", of_attention);
  }
  if (of_hidden > 0 && !is_given("stored_masks"))
    out.assume("stored_masks", true, "PyTorch's dropout keeps its masks");
}

void MegatronReader::read_bias() {
  const char* const none = "--disable-bias-linear";
  const char* const qkv = "--add-qkv-bias";
  if (on(none) && on(qkv))
    out.add(fmt::format("{} {}", said(none), said(qkv)), "bias", "qkv");
  else if (on(none))
    out.add(said(none), "bias", "none");
  else if (has(qkv))
    out.same.push_back({said(qkv), "all linear maps have a bias"});
}

void MegatronReader::read_window() {
  const Argument* argument = find("--window-size");
  if (argument == nullptr) return;
  // "(128,0)", "128,0" or two values: positions before, and behind.
  std::string all = fmt::format("{}", fmt::join(argument->values, ","));
  std::erase_if(all,
                [](char c) { return c == '(' || c == ')' || c == ' ' || c == '\'' || c == '"'; });
  const size_t comma = all.find(',');
  const auto before = whole_number(0, int64_t{1} << 40).parse(all.substr(0, comma));
  if (!before || comma == std::string::npos || all.substr(comma + 1) != "0")
    fail(fmt::format("{}: frugal has windows that look back, such as --window-size 128,0",
                     argument->text()));
  out.add(argument->text(), "window", before->get<int64_t>() + 1, "and the position itself");
}

void MegatronReader::read_vocabulary() {
  const char* const extra = "--vocab-extra-ids";
  if (has(extra) && text(extra) != "0")
    miss(extra, "further tokens; --vocabulary says how many there are in all");
  else if (has(extra))
    out.same.push_back({said(extra), "there are none"});
  for (const char* padded : {"--padded-vocab-size"})
    if (const auto tokens = count(padded)) {
      out.add(said(padded), "vocabulary_size", *tokens);
      for (const char* other :
           {"--vocab-size", "--make-vocab-size-divisible-by", "--tokenizer-type",
            "--no-pad-vocab-size", "--disable-pad-vocab-size"})
        if (has(other))
          out.same.push_back({said(other), fmt::format("{} says what comes of it", padded)});
      return;
    }
  const char* const type = "--tokenizer-type";
  const std::string tokenizer = text(type).value_or("");
  std::optional<int64_t> tokens = count("--vocab-size");
  std::string from = tokens ? said("--vocab-size") : "";
  const auto known = std::find_if(known_tokenizers.begin(), known_tokenizers.end(),
                                  [&](const KnownTokenizer& one) { return one.type == tokenizer; });
  if (!tokens && known != known_tokenizers.end()) {
    tokens = known->tokens;
    from = said(type);
  }
  if (is_given("vocabulary_size")) {
    tokens = whole_number(1, int64_t{1} << 40)
                 .value("--vocabulary", options_.given.at("vocabulary_size").dump())
                 .get<int64_t>();
    from = fmt::format("--vocabulary {}", *tokens);
  }
  if (!tokens)
    fail(fmt::format(
        "how many tokens there are is said by the tokenizer's files{}; give --vocabulary N, "
        "which is padded as Megatron-LM pads it",
        tokenizer.empty() ? "" : ", and " + tokenizer + " may have any"));
  const char* const unpadded =
      has("--no-pad-vocab-size") ? "--no-pad-vocab-size" : "--disable-pad-vocab-size";
  if (on(unpadded)) {
    out.add(fmt::format("{} {}", from, said(unpadded)), "vocabulary_size", *tokens);
    for (const char* other : {type, "--make-vocab-size-divisible-by"})
      if (has(other) && from != said(other)) out.same.push_back({said(other), "it is not padded"});
    return;
  }
  if (has(unpadded)) out.same.push_back({said(unpadded), "it is off"});
  const int64_t multiple =
      count("--make-vocab-size-divisible-by").value_or(128) * size("tensor_parallel_size");
  const std::string said_by =
      has("--make-vocab-size-divisible-by") ? " " + said("--make-vocab-size-divisible-by") : "";
  out.add(from + said_by, "vocabulary_size", (*tokens + multiple - 1) / multiple * multiple,
          fmt::format("{} tokens, padded to a multiple of {}", *tokens, multiple));
  if (has(type) && from != said(type))
    out.same.push_back({said(type), fmt::format("{} says how many tokens there are", from)});
}

void MegatronReader::read_objective() {
  const std::string& program = list_.program;
  if (program.empty() || program.starts_with("pretrain_gpt")) return;
  if (program.starts_with("pretrain_bert")) {
    out.add(program, "objective", "masked-token");
    out.add(program, "causal", false);
    out.missing.push_back(
        {program,
         "token types, a linear layer and a norm before the vocabulary, and a head that tells "
         "whether sentences follow each other"});
  } else {
    out.missing.push_back({program, "frugal trains as pretrain_gpt.py and pretrain_bert.py do"});
  }
}

void MegatronReader::read_type() {
  if (on("--bf16")) {
    out.add(said("--bf16"), "type", "bf16");
  } else if (on("--fp16")) {
    out.add(said("--fp16"), "type", "bf16",
            "as many bytes and as fast; frugal has no fp16 and scales no loss. Its gradients are "
            "in float32, those of "
            "Megatron-LM in fp16 without --accumulate-allreduce-grads-in-fp32");
  } else {
    out.assume("type", "f32", "neither --bf16 nor --fp16 is there");
  }
}

void MegatronReader::read_optimizer() {
  if (!has("--sgd-momentum")) return;
  if (out.given.value("optimizer", "") == "momentum")
    out.add(said("--sgd-momentum"), "momentum", *number("--sgd-momentum"));
  else
    out.same.push_back({said("--sgd-momentum"), "the optimizer is another"});
}

}  // namespace frugal::harness
