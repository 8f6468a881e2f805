#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/report/models_report.h"
#include "harness/report/programs_report.h"
#include "harness/settings/config_json.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

constexpr const char* exit_statuses = R"(## Exit status

| status | meaning |
|---:|---|
| 0 | done |
| 1 | a claim was not reproduced, and `--check` was given; or real memory did not do as `longest` found; or `calibrate --check` found that a machine's file is not what fitting gives; or `validate` found what is slower than it should be |
| 2 | bad input; nothing was written |
| 3 | out of memory; the record says how much was missing |
| 4 | a deadline passed |
| 5 | a peer was lost |
| 6 | wrong numbers, such as a loss that is not finite or a result of `validate`, or an error of frugal itself |
| 7 | a case of `reproduce` lost the GPU, as an illegal access does, so that no further one was run; what was recorded is kept, and the same command runs the rest |
| 130 | interrupted; what was recorded is kept, and the same command runs what was not |

`reproduce` goes on after a case that did not end well, and exits with the highest status of its
cases. Without `--check` a claim that is not reproduced is a result like any other: status 0.

Every error is one line on stderr that begins with `frugal: `. Results go to stdout, progress to
stderr.
)";

std::string describe(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty())
    text += fmt::format(" (default: {})", option.get_default_str());
  std::string name = option.get_positional() ? option.get_name() : option.get_name(false, true);
  if (!option.get_type_name().empty() && !option.get_positional())
    name += " " + option.get_type_name();
  std::string escaped;
  for (const char c : name) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return fmt::format("| `{}` | {} |\n", escaped, text);
}

}  // namespace

std::string cli_markdown(const CLI::App& app) {
  std::string out =
      fmt::format("# Command line\n\n<!-- Written by `frugal docs`; a test compares. -->\n\n{}\n\n",
                  app.get_description());
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    std::string usage = "frugal " + command->get_name();
    for (const CLI::Option* option : command->get_options())
      if (option->get_positional()) {
        const std::string name =
            option->get_name() + (option->get_items_expected_max() > 1 ? "…" : "");
        usage += option->get_required() ? " " + name : " [" + name + "]";
      }
    out += fmt::format("## `{} [flags]`\n\n{}.\n\n| flag | meaning |\n|---|---|\n", usage,
                       command->get_description());
    for (const CLI::Option* option : command->get_options()) out += describe(*option);
    out += "\n";
  }
  return out + exit_statuses;
}

namespace {

/// The record's schema has that of a configuration within it, which a benchmark without a model
/// leaves out; the rest stays as it is written.
std::string with_configuration(std::string schema) {
  const std::string key = "    \"configuration\": ";
  const size_t begin = schema.find(key + "{") + key.size();
  size_t end = begin;
  for (int depth = 0; end == begin || depth > 0; ++end)
    depth += schema.at(end) == '{' ? 1 : schema.at(end) == '}' ? -1 : 0;
  nlohmann::json configuration = run_config_schema();
  configuration["type"] = {"object", "null"};
  std::string text = configuration.dump(2);
  for (size_t line = 0; (line = text.find('\n', line)) != std::string::npos;)
    text.insert(++line, "    ");
  return schema.replace(begin, end - begin, text);
}

/// The page around this table is written by hand. Throws InputError where it has no place for it.
std::string with_models(const std::filesystem::path& path) {
  const std::string begin = "<!-- models -->\n", end = "<!-- end -->";
  std::string page = read_text(path.string());
  const size_t mark = page.find(begin);
  const size_t last = mark == std::string::npos ? mark : page.find(end, mark);
  if (last == std::string::npos)
    throw InputError(fmt::format("{}: has no line {} with {} behind it; copy docs/models.md there",
                                 path.string(), begin.substr(0, begin.size() - 1), end));
  const size_t first = mark + begin.size();
  return page.replace(first, last - first, models_table().markdown());
}

/// Reads what it needs before it writes anything.
void write_documents(const std::filesystem::path& folder, const CommandLine& line) {
  const std::filesystem::path record = folder / "record.schema.json", models = folder / "models.md";
  const std::string schema = with_configuration(read_text(record.string()));
  const std::string page = with_models(models);
  write_file((folder / "cli.md").string(), cli_markdown(line.app()));
  write_file((folder / "programs.md").string(), programs_markdown());
  write_file((folder / "verdicts.md").string(), line.papers().policy);
  write_file((folder / "inventory.md").string(), inventory_markdown(line.papers().inventories));
  write_file((folder / "configuration.schema.json").string(),
             configuration_file_schema().dump(2) + "\n");
  write_file(record.string(), schema);
  write_file(models.string(), page);
}

}  // namespace

void add_docs(CommandLine& line) {
  const auto folder = std::make_shared<std::string>();
  Flags flags = line.command("docs", "Print docs/cli.md", [&line, folder] {
    if (folder->empty())
      fmt::print("{}", cli_markdown(line.app()));
    else
      write_documents(*folder, line);
    return Exit::done;
  });
  flags.text(
      "--write", *folder, "DIR",
      "Write cli.md, programs.md, verdicts.md, inventory.md and configuration.schema.json, the "
      "configuration of record.schema.json, and the table of models.md, to this folder");
}

}  // namespace frugal::harness
