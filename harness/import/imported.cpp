#include "harness/import/imported.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "harness/import/argument_list.h"
#include "harness/import/deepspeed.h"
#include "harness/import/megatron_reader.h"
#include "harness/import/shell_script.h"
#include "harness/import/torchtitan.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"

namespace frugal::harness {

void Imported::fix(const nlohmann::json& values) {
  for (const auto& [key, value] : values.items()) {
    const Field& field = field_of(key);
    add(fmt::format("{} {}", field.name(), field.type.text(value)), key, value);
  }
  fixed.update(values);
}

void Imported::add(const std::string& said, const std::string& key, const nlohmann::json& value,
                   const std::string& note) {
  if (fixed.contains(key)) {
    same.push_back({said, fmt::format("{} takes precedence", field_of(key).name())});
    return;
  }
  given[key] = value;
  mapped.push_back({said, fmt::format("{}={}{}{}", key, field_of(key).type.text(value),
                                      note.empty() ? "" : ": ", note)});
}

void Imported::assume(const std::string& key, const nlohmann::json& value, const std::string& why) {
  if (fixed.contains(key)) return;
  given[key] = value;
  assumed.push_back({fmt::format("{}={}", key, field_of(key).type.text(value)), why});
}

int64_t bounded_product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product))
      return std::numeric_limits<int64_t>::max();
  return product;
}

const KnownParts* find_known(const std::vector<KnownParts>& all, std::string_view name) {
  const auto is_called = [name](std::string_view known) {
    return known.ends_with("*") ? name.starts_with(known.substr(0, known.size() - 1))
                                : known == name;
  };
  const auto found = std::find_if(all.begin(), all.end(), [&](const KnownParts& line) {
    return std::any_of(line.names.begin(), line.names.end(), is_called);
  });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> import_formats() { return {"megatron", "torchtitan", "deepspeed"}; }

Imported import_configuration(const std::string& format, const std::string& text,
                              const std::string& file, const ImportOptions& options) {
  if (format == "megatron")
    return import_megatron(arguments_in(text, file, {options.variables, options.launch}), file,
                           options);
  if (format == "torchtitan") return import_torchtitan(text, file, options);
  return import_deepspeed(text, file, options);
}

namespace {

/// Whether a run needs the value behind an argument; behind a switch stand others, or none.
bool needs_value(const Argument& argument) {
  constexpr std::array switches = {
      "--group-query-attention", "--disable-bias-linear", "--add-qkv-bias",
      "--use-rotary-position-embeddings", "--no-position-embedding", "--use-rope-scaling",
      "--use-flash-attn",
      // Ranks, memory and number types.
      "--sequence-parallel", "--use-distributed-optimizer", "--use-torch-fsdp2",
      "--use-megatron-fsdp", "--use-custom-fsdp", "--recompute-activations",
      "--checkpoint-activations", "--fine-grained-activation-offloading", "--bf16", "--fp16"};
  const MegatronArgument* line = find_megatron_field(argument.name);
  return line != nullptr && line->reads != MegatronArgument::Reads::present &&
         std::find(switches.begin(), switches.end(), argument.name) == switches.end();
}

/// Names all variables of a script that are not set and that a run needs, and what else its
/// conditions ask for. Another model than frugal has goes before them.
void check_variables(const ArgumentList& list, const std::string& file,
                     const ImportOptions& options) {
  std::vector<std::string> said, names;
  const auto need = [&](const std::string& what, const std::string& text) {
    for (const std::string& name : open_names(text)) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      names.push_back(name);
      said.push_back(fmt::format("{} ({})", name, what));
    }
  };
  for (const Argument& argument : list.all)
    if (!argument.values.empty() && needs_value(argument)) need(argument.name, argument.values[0]);
  const size_t before = names.size();
  if (!options.ranks && !options.given.contains("data_parallel_size"))
    need("the number of ranks", list.ranks_unknown);
  const bool ranks = names.size() > before;
  if (names.empty()) return;
  for (const Argument& argument : list.all)
    if (find_known(megatron_other_models(), argument.name) != nullptr)
      throw InputError(
          fmt::format("{}: it trains another model than frugal has: {}", file, argument.text()));
  std::vector<std::string> asked = list.asked;
  std::erase_if(asked, [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
  throw InputError(fmt::format(
      "{}: not set: {}; give --set {}=VALUE{}{}", file, fmt::join(said, ", "),
      fmt::join(names, "=VALUE --set "), ranks ? ", or --world-size" : "",
      asked.empty() ? "" : fmt::format("; conditions ask for {}, too", fmt::join(asked, ", "))));
}

/// Has a value of an argument that stands beside the list.
void put_answer(ArgumentList& list, const std::string& name, int64_t value, Imported& out) {
  for (const Argument& argument : list.all)
    if (argument.name == name)
      out.same.push_back({fmt::format("{} {}", name, fmt::join(argument.values, " ")),
                          fmt::format("{} {} takes precedence", name, value)});
  std::erase_if(list.all, [&](const Argument& argument) { return argument.name == name; });
  list.all.push_back({name, {std::to_string(value)}});
}

/// Drops the list's details of recomputation, over which --recompute takes precedence.
void leave_out_recomputation(Imported& out) {
  for (const char* key : {"recompute_modules", "recompute_layers", "recompute_group"}) {
    if (out.given.erase(key) == 0) continue;
    const auto of_key = [&](const Imported::Part& part) {
      return part.what.starts_with(fmt::format("{}=", key));
    };
    for (const Imported::Part& part : out.mapped)
      if (of_key(part)) out.same.push_back({part.said, "--recompute takes precedence"});
    std::erase_if(out.mapped, of_key);
  }
}

}  // namespace

Imported import_megatron(const ArgumentList& list, const std::string& file,
                         const ImportOptions& options) {
  check_variables(list, file, options);
  ArgumentList answered = list;
  Imported answers;
  if (options.global_batch)
    put_answer(answered, "--global-batch-size", *options.global_batch, answers);
  for (const auto& [key, name] :
       {std::pair{"microbatch_size", "--micro-batch-size"}, {"sequence_length", "--seq-length"}})
    if (options.given.contains(key))
      put_answer(answered, name, options.given.at(key).get<int64_t>(), answers);
  MegatronReader reader(answered, options, file);
  reader.read();
  if (options.given.contains("recompute")) leave_out_recomputation(reader.out);
  for (Imported::Part& part : answers.same) reader.out.same.push_back(std::move(part));
  return std::move(reader.out);
}

}  // namespace frugal::harness
