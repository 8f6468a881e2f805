#include "harness/report/formats/junit.h"

#include <fmt/format.h>

#include <algorithm>

namespace frugal::harness {
namespace {

/// As XML text. XML 1.0 has no control characters but these, not even escaped.
std::string escape_xml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const bool allowed =
        static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n' || c == '\r';
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (allowed)
      escaped += c;
  }
  return escaped;
}

std::string body_of(const JUnitCase& c) {
  std::string body;
  if (c.outcome == JUnitCase::Outcome::failed)
    body += fmt::format("    <failure message=\"{}\"/>\n", escape_xml(c.message));
  if (c.outcome == JUnitCase::Outcome::skipped)
    body += fmt::format("    <skipped message=\"{}\"/>\n", escape_xml(c.message));
  if (!c.details.empty())
    body += fmt::format("    <system-out>{}</system-out>\n", escape_xml(c.details));
  return body;
}

}  // namespace

std::string junit_xml(const std::string& suite, const std::vector<JUnitCase>& cases) {
  const auto count = [&](JUnitCase::Outcome outcome) {
    return std::count_if(cases.begin(), cases.end(),
                         [&](const JUnitCase& c) { return c.outcome == outcome; });
  };
  double seconds = 0;
  for (const JUnitCase& c : cases) seconds += c.seconds;
  const std::string totals = fmt::format(
      "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3f}\"", cases.size(),
      count(JUnitCase::Outcome::failed), count(JUnitCase::Outcome::skipped), seconds);
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n<testsuite name=\"{1}\" "
      "{0}>\n",
      totals, escape_xml(suite));
  for (const JUnitCase& c : cases)
    xml += fmt::format(
        "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n{}  "
        "</testcase>\n",
        escape_xml(c.group), escape_xml(c.name), c.seconds, body_of(c));
  return xml + "</testsuite>\n</testsuites>\n";
}

}  // namespace frugal::harness
