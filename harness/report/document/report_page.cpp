#include <array>
#include <nlohmann/json.hpp>

#include "harness/report/document/report_document.h"
#include "kernels/support/embedded.h"

namespace frugal::harness {
namespace {

/// Libraries (cmake/Page.cmake), then our own scripts, the last of which begins.
constexpr std::array page_libraries = {"page/jquery.js", "page/datatables.js", "page/d3.js"};
constexpr std::array scripts = {"data",    "elements",  "overview",  "claims",  "provenance",
                                "figures", "artifacts", "timelines", "records", "main"};

std::string part(const std::string& name) { return std::string(embedded_file(name).value()); }
std::string own(const std::string& name) { return part("harness/report/page/" + name); }

/// JSON within a script element: nothing in it ends the element.
std::string within_script(const nlohmann::json& document) {
  const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

/// The template with each of "{{NAME}}" replaced by what belongs there.
std::string filled(std::string page, const std::string& name, const std::string& content) {
  const std::string mark = "{{" + name + "}}";
  return page.replace(page.find(mark), mark.size(), content);
}

}  // namespace

std::string report_page(nlohmann::json document,
                        const std::vector<std::pair<std::string, std::string>>& pictures) {
  document["pictures"] = nlohmann::json::array();
  for (const auto& [name, address] : pictures)
    document["pictures"].push_back({{"name", name}, {"address", address}});
  std::string code;
  for (const char* library : page_libraries) code += "<script>" + part(library) + "</script>\n";
  code += "<script>\"use strict\";\n(() => {\n";
  for (const char* script : scripts) code += own(std::string(script) + ".js");
  code += "})();\n</script>";
  std::string page = filled(own("page.html"), "style", own("style.css"));
  page = filled(std::move(page), "licences", own("licences.html"));
  page = filled(std::move(page), "code", code);
  return filled(std::move(page), "document", within_script(document));
}

}  // namespace frugal::harness
