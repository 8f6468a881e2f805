#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/documented.h"
#include "harness/cli/files.h"
#include "harness/report/commands/models_report.h"
#include "harness/report/commands/programs_report.h"
#include "harness/settings/config_json.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// A row of a table: `name`, meaning.
std::string row(const DocumentedOption& option) {
  std::string escaped;
  for (const char c : option.name) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return fmt::format("| `{}` | {} |\n", escaped, option.meaning);
}

}  // namespace

std::string cli_markdown(const CLI::App& app) {
  std::string out =
      fmt::format("# Command line\n\n<!-- Written by `frugal docs`; a test compares. -->\n\n{}\n\n",
                  app.get_description());
  for (const CLI::App* command : listed_commands(app)) {
    out += fmt::format("## `{} [flags]`\n\n{}.\n\n| flag | meaning |\n|---|---|\n",
                       usage_of(*command), command->get_description());
    for (const DocumentedOption& option : documented_options(*command)) out += row(option);
    out += "\n";
  }
  out += "## Exit status\n\n| status | meaning |\n|---:|---|\n";
  for (const DocumentedStatus& status : documented_statuses())
    out += fmt::format("| {} | {} |\n", static_cast<int>(status.status), status.meaning);
  for (const std::string& ending : documented_endings()) out += fmt::format("\n{}\n", ending);
  return out;
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
  const auto man = std::make_shared<bool>(false);
  Flags flags = line.command("docs", "Print docs/cli.md", [&line, folder, man] {
    if (*man)
      fmt::print("{}", man_page(line.app()));
    else if (folder->empty())
      fmt::print("{}", cli_markdown(line.app()));
    else
      write_documents(*folder, line);
    return Exit::done;
  });
  flags.toggle("--man", *man, "Print the man page frugal(1) instead");
  flags.text(
      "--write", *folder, "DIR",
      "Write cli.md, programs.md, verdicts.md, inventory.md and configuration.schema.json, the "
      "configuration of record.schema.json, and the table of models.md, to this folder");
}

}  // namespace frugal::harness
