#include "harness/import/printed_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "harness/import/imported.h"
#include "harness/import/megatron_table.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// Switches that make what is printed False, where the name is not behind "no-" or "disable-".
const std::map<std::string, std::string> printed_switches = {
    {"perform_initialization", "--no-initialization"},
    {"add_bias_linear", "--disable-bias-linear"},
    {"use_mamba_mem_eff_path", "--disable-mamba-mem-eff-path"},
    {"add_position_embedding", "--no-position-embedding"},
    {"bert_binary_head", "--bert-no-binary-head"},
    {"muon_split_qkv", "--muon-no-split-qkv"},
    {"apply_rope_fusion", "--no-rope-fusion"},
    {"use_gloo_process_groups", "--disable-gloo-process-groups"},
    {"overlap_p2p_comm", "--no-overlap-p2p-communication"},
    {"torch_fsdp2_reshard_after_forward", "--torch-fsdp2-no-reshard-after-forward"},
    {"barrier_with_L1_time", "--no-barrier-with-level-1-timing"},
    {"offset_sampling_seed_by_dp_rank", "--use-same-sampling-seed-across-dp-ranks"},
    {"enable_one_logger", "--no-one-logger"}};

/// Arguments that are printed by other names.
const std::map<std::string, std::string> printed_names = {
    {"overlap_p2p_comm_warmup_flush", "--overlap-p2p-communication-warmup-flush"},
    {"microbatch_group_size_per_vp_stage", "--microbatch-group-size-per-virtual-pipeline-stage"},
    {"layernorm_zero_centered_gamma", "--apply-layernorm-1p"},
    {"deprecated_use_mcore_models", "--use-mcore-models"},
    {"use_dist_ckpt_deprecated", "--use-dist-ckpt"},
    {"dist_ckpt_format_deprecated", "--dist-ckpt-format"},
    {"ckpt_fully_parallel_save_deprecated", "--ckpt-fully-parallel-save"},
    {"logit_dtype", "--output-logit-dtype"},
    {"nccl_ub", "--use-nccl-ub"},
    {"metadata_path", "--tokenizer-metadata"},
    {"special_tokens", "--tokenizer-special-tokens"},
    {"cuda_graph_scope_deprecated", "--cuda-graph-scope"},
    {"inference_dynamic_batching_enable_prefix_caching",
     "--inference-dynamic-batching-prefix-caching"},
    {"disable_msc_deprecated", "--disable-msc"}};

bool is_megatron_argument(const std::string& name) {
  static const std::vector<std::string> names = megatron_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The switch that makes what is printed False; empty where there is none.
std::string switched_off_by(const std::string& printed, const std::string& dashed) {
  if (const auto found = printed_switches.find(printed); found != printed_switches.end())
    return found->second;
  for (const char* before : {"--no-", "--disable-"})
    if (is_megatron_argument(before + dashed)) return before + dashed;
  return "";
}

/// "['a', 'b']" is two values, and "AttnBackend.auto" is auto.
std::vector<std::string> printed_values(const std::string& text) {
  const size_t dot = text.find('.');
  const bool enumeration =
      dot != std::string::npos && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(dot),
                  [](unsigned char c) { return std::isalpha(c) != 0; });
  if (enumeration) return {text.substr(dot + 1)};
  if (!text.starts_with('[')) return {text};
  std::vector<std::string> values;
  std::string word;
  for (const char c : text) {
    const bool between = std::string_view("[]',\" ").find(c) != std::string_view::npos;
    if (!between) word += c;
    if (between && !word.empty()) values.push_back(std::exchange(word, {}));
  }
  return values;
}

/// An argument that was given, of a line that is printed; none where it was not.
std::optional<Argument> printed_argument(const std::string& name, const std::string& value) {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const auto renamed = printed_names.find(name);
  const std::string argument = renamed == printed_names.end() ? "--" + dashed : renamed->second;
  if (value == "None" || value == "[]" || value.empty()) return std::nullopt;
  if (value != "True" && value != "False") return Argument{argument, printed_values(value)};
  const std::string off = switched_off_by(name, dashed);
  const bool given = off.empty() ? value == "True" : value == "False";
  return given ? std::optional(Argument{off.empty() ? argument : off, {}}) : std::nullopt;
}

/// Number printed for a name, at least 1; 1 where the name is not printed or has no number.
int64_t printed_number(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  int64_t number = 1;
  if (found != values.end())
    (void)std::from_chars(found->second.data(), found->second.data() + found->second.size(),
                          number);
  return std::max<int64_t>(number, 1);
}

/// A line's name and value. A launcher may write a rank before it; a name of 48 letters has no dots
/// behind it.
std::optional<std::pair<std::string, std::string>> printed_line(const std::string& line) {
  const auto in_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  size_t end = line.find(" .");
  if (end == std::string::npos) end = line.rfind("  ");
  if (end == std::string::npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && in_name(line[begin - 1])) --begin;
  const size_t value = line.find_first_not_of('.', end + 1);
  const size_t last = line.find_last_not_of(" \r");
  if (begin == end || value == std::string::npos || line[value] != ' ') return std::nullopt;
  return std::pair(line.substr(begin, end - begin),
                   last > value ? line.substr(value + 1, last - value) : "");
}

/// Lines between the two headings; none where there is no first one.
std::optional<std::string> printed_block(const std::string& text, const std::string& file) {
  constexpr std::string_view heading = "---- arguments ----", ending = "---- end of arguments ----";
  const size_t at = text.find(heading);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = std::min(text.find('\n', at), text.size()), end = text.find(ending, at);
  if (end == std::string::npos)
    throw InputError(fmt::format(
        "{}: the printed arguments have no end; give all lines from \"arguments\" to \"end of "
        "arguments\"",
        file));
  const size_t last = text.rfind('\n', end);
  return last > begin ? text.substr(begin, last - begin) : "";
}

}  // namespace

std::optional<ArgumentList> printed_arguments(const std::string& text, const std::string& file) {
  const auto block = printed_block(text, file);
  if (!block) return std::nullopt;
  ArgumentList list;
  std::map<std::string, std::string> values;
  for (size_t at = 0; at < block->size();) {
    const size_t next = std::min(block->find('\n', at), block->size());
    const std::string line = block->substr(at, next - at);
    at = next + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto read = printed_line(line);
    if (!read)
      throw InputError(
          fmt::format("{}: \"{}\" is no printed argument, which is NAME .... VALUE", file, line));
    const auto& [name, value] = *read;
    if (const auto [at_name, first] = values.emplace(name, value); !first) {
      if (at_name->second == value) continue;
      throw InputError(
          fmt::format("{}: {} is printed as {} and as {}; give the list of one training", file,
                      name, at_name->second, value));
    }
    if (const auto argument = printed_argument(name, value)) list.all.push_back(*argument);
  }
  const auto number = [&](const char* name) { return printed_number(values, name); };
  if (values.contains("world_size"))
    list.ranks = number("world_size");
  else if (values.contains("data_parallel_size"))
    list.ranks =
        bounded_product({number("data_parallel_size"), number("tensor_model_parallel_size"),
                         number("pipeline_model_parallel_size"), number("context_parallel_size")});
  return list;
}

}  // namespace frugal::harness
