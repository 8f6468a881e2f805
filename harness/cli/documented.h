#pragma once
#include <string>
#include <vector>

#include "harness/record/exit.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}  // namespace CLI

namespace frugal::harness {

/// The command line as documents have it: docs/cli.md, the man page, shells' completions. In texts,
/// `code` is marked as Markdown marks it.

/// The commands that users are told of, in their order.
std::vector<const CLI::App*> listed_commands(const CLI::App& app);

/// "frugal list [ARTIFACT…]"
std::string usage_of(const CLI::App& command);

/// A flag with its names and what may be its value ("--on cpu|cuda"), or an operand.
struct DocumentedOption {
  std::string name, meaning;
};
std::vector<DocumentedOption> documented_options(const CLI::App& command);

struct DocumentedStatus {
  Exit status;
  const char* meaning;
};
const std::vector<DocumentedStatus>& documented_statuses();
/// What else there is to say of how commands end: paragraphs.
const std::vector<std::string>& documented_endings();

/// The man page frugal(1), in man's macros.
std::string man_page(const CLI::App& app);

}  // namespace frugal::harness
