#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "harness/cli/documented.h"

namespace frugal::harness {
namespace {

/// How many bytes the UTF-8 character has that begins so.
size_t length_of_character(char first) {
  const auto bits = static_cast<unsigned char>(first);
  return bits < 0x80 ? 1 : bits < 0xe0 ? 2 : bits < 0xf0 ? 3 : 4;
}

/// The character by its number, which every formatter and locale understands: "\[u2026]".
std::string by_number(std::string_view character) {
  uint32_t number = static_cast<unsigned char>(character[0]) & (0x7f >> character.size());
  for (const char next : character.substr(1))
    number = number << 6 | (static_cast<unsigned char>(next) & 0x3f);
  return fmt::format("\\[u{:04X}]", number);
}

/// Text that the formatter does not take for its own: a hyphen is what users type, and no line
/// begins with what could be a macro. What stands in `code` is bold. A line may end between
/// alternatives.
std::string roff(std::string_view text) {
  std::string out;
  bool code = false;
  for (size_t i = 0; i < text.size(); i += length_of_character(text[i])) {
    const char c = text[i];
    if (c == '`')
      out += (code = !code) ? "\\fB" : "\\fR";
    else if (length_of_character(c) > 1)
      out += by_number(text.substr(i, length_of_character(c)));
    else if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '"')
      out += "\\(dq";
    else if (c == '|')
      out += "|\\:";
    else
      out += c;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

/// A term, which is bold up to its value, and what it means.
std::string entry(const std::string& term, const std::string& meaning) {
  const std::string name = term.substr(0, term.find(' '));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(name), roff(term.substr(name.size())),
                     roff(meaning));
}

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string out = fmt::format(
      ".\\\" Written by `frugal docs --man`.\n"
      ".TH FRUGAL 1 {} \"frugal {}\" \"User Commands\"\n"
      ".ad l\n"
      ".SH NAME\nfrugal \\- {}\n"
      ".SH SYNOPSIS\n\\fBfrugal\\fR \\fICOMMAND\\fR [\\fIFLAGS\\fR]\n"
      ".SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      FRUGAL_RELEASED, FRUGAL_VERSION, roff(FRUGAL_DESCRIPTION), roff(app.get_description()));
  for (const CLI::App* command : listed_commands(app)) {
    out += fmt::format(".SS \"{} [flags]\"\n{}.\n", roff(usage_of(*command)),
                       roff(command->get_description()));
    for (const DocumentedOption& option : documented_options(*command))
      out += entry(option.name, option.meaning);
  }
  out += ".SH EXIT STATUS\n";
  for (const DocumentedStatus& status : documented_statuses())
    out += entry(std::to_string(static_cast<int>(status.status)), status.meaning);
  for (const std::string& ending : documented_endings())
    out += fmt::format(".PP\n{}\n", roff(ending));
  return out;
}

}  // namespace frugal::harness
