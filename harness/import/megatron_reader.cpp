#include "harness/import/megatron_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/import/shell_script.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// As Python reads a whole number: "300_000" is 300000.
std::string without_separators(const std::string& text) {
  std::string digits = text;
  std::erase(digits, '_');
  const bool whole =
      !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  return whole ? digits : text;
}

/// What to do about a text with a variable in it that is not set.
std::string to_set(const std::string& text) {
  const auto names = open_names(text);
  if (names.empty()) return "which a program prints; give a list that has its value";
  return fmt::format("which is not set; give --set {}=VALUE", names.front());
}

}  // namespace

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void MegatronReader::fail(const std::string& what) const {
  throw InputError(fmt::format("{}: {}", file_, what));
}

const Argument* MegatronReader::find(std::string_view name) const {
  const MegatronArgument* line = find_megatron_field(name);
  for (const Argument& argument : list_.all)
    if (argument.name == name || (line != nullptr && line->names.front() == name &&
                                  find_megatron_field(argument.name) == line))
      return &argument;
  return nullptr;
}

std::optional<std::string> MegatronReader::text(std::string_view name) const {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  if (argument->values.empty()) fail(fmt::format("{} has no value", argument->name));
  const std::string& value = argument->values.front();
  if (is_open(value)) fail(fmt::format("{} is {}, {}", argument->name, value, to_set(value)));
  // Behind a value may stand a variable with further arguments that is not set.
  if (!std::all_of(argument->values.begin() + 1, argument->values.end(), is_open))
    fail(fmt::format("{} has {} values; it takes one", argument->text(), argument->values.size()));
  return without_separators(value);
}

std::vector<std::string> MegatronReader::texts(std::string_view name) const {
  const Argument* argument = find(name);
  std::vector<std::string> all;
  if (argument == nullptr) return all;
  for (const std::string& value : argument->values) {
    if (is_open(value)) fail(fmt::format("{} is {}, {}", argument->name, value, to_set(value)));
    std::string word;
    for (const char c : value + " ") {
      const bool between = std::string_view("[](), '\"").find(c) != std::string_view::npos;
      if (!between) word += c;
      if (between && !word.empty()) all.push_back(std::exchange(word, {}));
    }
  }
  return all;
}

std::string MegatronReader::word(std::string_view name,
                                 std::initializer_list<std::string_view> allowed,
                                 const std::string& otherwise) const {
  const auto value = text(name);
  if (!value) return otherwise;
  std::string small = lower(*value);
  if (std::find(allowed.begin(), allowed.end(), small) == allowed.end())
    fail(fmt::format("{}: it must be one of {}", said(name), fmt::join(allowed, ", ")));
  return small;
}

std::optional<int64_t> MegatronReader::count(std::string_view name) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return whole_number(1, int64_t{1} << 40)
      .value(fmt::format("{}: {}", file_, name), *value)
      .get<int64_t>();
}

std::optional<double> MegatronReader::number(std::string_view name) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return real_number(0, 1e12).value(fmt::format("{}: {}", file_, name), *value).get<double>();
}

bool MegatronReader::on(std::string_view name) const {
  const Argument* argument = find(name);
  if (argument == nullptr) return false;
  // What stands behind a switch may be a variable with further arguments that is not set.
  for (const std::string& value : argument->values)
    if (lower(value) != "true" && lower(value) != "false" && !is_open(value))
      fail(fmt::format("\"{}\" stands behind {}, which takes no value", value, argument->name));
  return argument->values.empty() || lower(argument->values.front()) != "false";
}

int64_t MegatronReader::size(std::string_view key) const {
  const auto found = out.given.find(key);
  return found == out.given.end() ? field_of(key).usual.get<int64_t>() : found->get<int64_t>();
}

void MegatronReader::derive(std::string_view name, const std::string& key,
                            const nlohmann::json& value, const std::string& why) {
  if (has(name))
    out.add(said(name), key, value, why);
  else
    out.assume(key, value, why);
}

void MegatronReader::miss(std::string_view name, const std::string& what) {
  out.missing.push_back({said(name), what});
}

void MegatronReader::read_field(const MegatronArgument& line, const Argument& argument) {
  using Reads = MegatronArgument::Reads;
  if (line.reads == Reads::together) return;
  const Field& field = field_of(line.key);
  const std::string where = fmt::format("{}: {}", file_, argument.name);
  if (line.reads == Reads::present) {
    if (on(argument.name))
      out.add(argument.text(), field.key, *field.type.parse(std::string(line.texts.front().second)),
              std::string(line.note));
    else
      out.same.push_back({argument.text(), "it is off"});
    return;
  }
  std::string value = *text(line.names.front());
  if (line.reads == Reads::choice) {
    const auto known = std::find_if(line.texts.begin(), line.texts.end(), [&](const auto& one) {
      return lower(std::string(one.first)) == lower(value);
    });
    if (known == line.texts.end()) {
      out.missing.push_back(
          {argument.text(), fmt::format("frugal has no such {}; {} stands for it", field.key,
                                        field.type.text(field.usual))});
      return;
    }
    value = known->second;
  }
  out.add(argument.text(), field.key, field.type.value(where, value), std::string(line.note));
}

/// Each once, whichever of its names it has.
void MegatronReader::check_names() const {
  for (const MegatronArgument& line : megatron_fields()) {
    const Argument* first = nullptr;
    for (const Argument& argument : list_.all) {
      if (std::find(line.names.begin(), line.names.end(), argument.name) == line.names.end())
        continue;
      if (first != nullptr && first->values != argument.values)
        fail(fmt::format("{} and {} are two names of one argument; give one", first->text(),
                         argument.text()));
      first = &argument;
    }
  }
}

/// Whether it is one that says something only where another one is there.
bool MegatronReader::read_depending(const Argument& argument) {
  for (const DependingParts& line : megatron_depending()) {
    const auto& names = line.parts.names;
    if (std::find(names.begin(), names.end(), argument.name) == names.end()) continue;
    const bool applies =
        std::any_of(list_.all.begin(), list_.all.end(), [&](const Argument& other) {
          const std::string said = lower(other.text());
          return std::any_of(line.on.begin(), line.on.end(), [&](std::string_view on) {
            return said == on || (other.name == on && said != other.name + " false" &&
                                  find_known(megatron_values(), other.text()) == nullptr);
          });
        });
    if (applies)
      out.missing.push_back({argument.text(), std::string(line.parts.what)});
    else
      out.same.push_back(
          {argument.text(), fmt::format("{} is not there", fmt::join(line.on, " or "))});
    return true;
  }
  return false;
}

void MegatronReader::read_one(const Argument& argument) {
  if (const MegatronArgument* line = find_megatron_field(argument.name)) {
    read_field(*line, argument);
    return;
  }
  if (read_depending(argument)) return;
  const auto part = [&](const KnownParts& line) {
    return Imported::Part{argument.text(), std::string(line.what)};
  };
  const KnownParts* with_value = find_known(megatron_values(), argument.text());
  if (with_value != nullptr) {
    out.same.push_back(part(*with_value));
  } else if (const auto* model = find_known(megatron_other_models(), argument.name)) {
    out.missing.push_back(part(*model));
    out.other_model.push_back(argument.name);
  } else if (const auto* same = find_known(megatron_without_effect(), argument.name)) {
    out.same.push_back(part(*same));
  } else if (const auto* missing = find_known(megatron_missing(), argument.name)) {
    out.missing.push_back(part(*missing));
  } else {
    const auto near = nearest(argument.name, megatron_names());
    out.unknown.push_back({argument.text(), near.empty() ? "not known"
                                                         : fmt::format("not known; similar are {}",
                                                                       fmt::join(near, ", "))});
  }
}

void MegatronReader::list_others() {
  for (const Argument& argument : list_.all) {
    const std::string said = argument.text() + " ";
    bool listed = false;
    for (const auto* parts : {&out.mapped, &out.same, &out.missing, &out.unknown})
      listed = listed || std::any_of(parts->begin(), parts->end(), [&](const auto& part) {
                 return (part.said + " ").find(said) != std::string::npos;
               });
    if (listed) continue;
    const bool off = !argument.values.empty() && lower(argument.values.front()) == "false";
    (off ? out.same : out.missing)
        .push_back({argument.text(), off ? "it is off" : "not read beside the other arguments"});
  }
}

/// Fields whose default is another than Megatron-LM's.
void MegatronReader::read_defaults() {
  for (const MegatronArgument& line : megatron_fields())
    if (!line.otherwise.empty() && !has(line.names.front())) {
      const Field& field = field_of(line.key);
      out.assume(field.key, *field.type.parse(std::string(line.otherwise)),
                 fmt::format("Megatron-LM's default of {}", line.names.front()));
    }
}

void MegatronReader::read() {
  out.format = "megatron";
  out.left_out = list_.left_out;
  nlohmann::json fixed = options_.given;
  fixed.erase("vocabulary_size");  // is padded: read_vocabulary()
  out.fix(fixed);
  check_names();
  for (const Argument& argument : list_.all) read_one(argument);
  try {
    read_together();
  } catch (const InputError&) {
    if (out.other_model.empty()) throw;  // another model goes before what it lacks
  }
}

void MegatronReader::read_together() {
  for (const char* name : {"--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length",
                           "--micro-batch-size"})
    if (!has(name)) fail(fmt::format("{} is missing; add it", name));
  read_defaults();
  read_sizes();
  read_gate();
  read_heads();
  read_positions();
  read_dropout();
  read_bias();
  read_window();
  read_layout();
  read_vocabulary();
  read_objective();
  read_type();
  read_optimizer();
  read_batch();
  read_groups();
  read_attention();
  read_scores();
  read_loss();
  read_deferred_gradients();
  read_program();
  read_recomputation();
  read_offloading();
  list_others();
}

}  // namespace frugal::harness
