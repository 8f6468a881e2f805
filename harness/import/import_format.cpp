#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "harness/huggingface/hugging_face_config.h"
#include "harness/import/imported.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

constexpr std::string_view blanks_of_a_line = " \t\r";

std::string_view without_blanks(std::string_view line) {
  const size_t begin = line.find_first_not_of(blanks_of_a_line);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(blanks_of_a_line) + 1 - begin);
}

/// Text from the first line on that is neither empty nor a comment.
std::string_view without_comments_before(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_blanks(text.substr(0, end));
    if (!line.empty() && line.front() != '#') break;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return text;
}

/// Whether a line is a section of TOML, "[model]" or "[[model]]": a test of the shell has a blank
/// behind its bracket.
bool is_heading(std::string_view line) {
  line = without_blanks(line.substr(0, line.find('#')));
  if (line.size() < 3 || line.front() != '[' || line.back() != ']') return false;
  return std::all_of(line.begin() + 1, line.end() - 1, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-.\"'[]").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

/// Names in quotation marks that begin a value, in JSON or in YAML in braces.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (size_t at = text.find('"'); at != std::string_view::npos; at = text.find('"', at + 1)) {
    const size_t end = text.find('"', at + 1);
    if (end == std::string_view::npos) break;
    const size_t next = text.find_first_not_of(" \t\r\n", end + 1);
    if (next != std::string_view::npos && text[next] == ':')
      names.emplace_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}

[[noreturn]] void say_what_it_is(const std::string& file, const std::string& what) {
  throw InputError(fmt::format("{}: {}", file, what));
}

void refuse_model(const nlohmann::json& json, const std::string& file) {
  const auto listed = json.find("architectures");
  const std::string name = (listed == json.end() ? json.at("model_type") : *listed).dump();
  say_what_it_is(file,
                 fmt::format("it is a model's config.json of Hugging Face's library, {}, and says "
                             "nothing of a training; give frugal measure or frugal plan --model {}",
                             name, file));
}

void refuse_own(const nlohmann::json& json, const std::string& file) {
  const auto schema = json.find("schema");
  const std::string name =
      schema != json.end() && schema->is_string() ? schema->get<std::string>() : "";
  if (name.starts_with("frugal.machine"))
    say_what_it_is(file, fmt::format("it describes a machine; give --on virtual:{}", file));
  if (name.starts_with("frugal."))
    say_what_it_is(
        file, fmt::format("it is frugal's own, {}, and no other program's configuration", name));
  const auto count = std::count_if(fields().begin(), fields().end(), [&](const Field& field) {
    const auto found = json.find(field.key);
    return found != json.end() && (!found->is_object() || field.key == "model");
  });
  if (2 * count > static_cast<int64_t>(json.size()))
    say_what_it_is(
        file,
        fmt::format("it is frugal's own configuration; give frugal measure --config {}", file));
}

/// Format of a text that begins with a brace.
std::string format_in_braces(std::string_view text, const std::string& file) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object() && is_hugging_face(json)) refuse_model(json, file);
  const std::vector<std::string> names = names_in(text);
  constexpr std::array of_neox = {"num_layers", "num-layers", "pipe_parallel_size",
                                  "pipe-parallel-size"};
  const bool neox = std::any_of(of_neox.begin(), of_neox.end(), [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
  if (neox)
    say_what_it_is(
        file,
        "it is a configuration of GPT-NeoX in YAML, which frugal does not read; give its values "
        "as Megatron-LM's arguments, behind --");
  if (json.is_object()) refuse_own(json, file);
  return "deepspeed";
}

}  // namespace

std::string import_format_of(std::string_view text, const std::string& file) {
  const std::string_view rest = without_comments_before(text);
  const std::string_view line = without_blanks(rest.substr(0, rest.find('\n')));
  if (line.starts_with('{')) return format_in_braces(rest, file);
  return is_heading(line) ? "torchtitan" : "megatron";
}

}  // namespace frugal::harness
