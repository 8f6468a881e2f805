#include <fmt/format.h>

#include <memory>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/record/record_file.h"
#include "harness/report/record_table.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct ExportValues {
  std::string folder, out, format = "csv";
  bool force = false;
};

Exit export_records(const ExportValues& values) {
  if (!values.out.empty()) {
    check_distinct({{"--out", values.out}}, {{"DIR", records_file(values.folder)}});
    check_output_file("--out", values.out, values.force);
  }
  const std::string text = record_rows(records_in(values.folder)).in(values.format);
  if (values.out.empty())
    fmt::print("{}", text);
  else
    write_file(values.out, text);
  return Exit::done;
}

}  // namespace

void add_export(CommandLine& line) {
  const auto values = std::make_shared<ExportValues>();
  Flags flags = line.command(
      "export",
      "Records as a table for data frames: a row for each record and quantity (docs/records.md)",
      [values] { return export_records(*values); });
  flags.positional("DIR", values->folder, "Folder with records.jsonl");
  flags.choice("--format", values->format, {"csv", "markdown"}, "How to write it");
  flags.text("--out", values->out, "FILE", "Where, instead of stdout");
  flags.toggle("--force", values->force, "Replace the file of --out");
}

}  // namespace frugal::harness
