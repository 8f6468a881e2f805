#include "harness/report/commands/calibration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/record/or_null.h"
#include "harness/report/table.h"

namespace frugal::harness {
namespace {

std::string signed_text(const std::optional<double>& number, const char* unit) {
  if (!number) return "";
  // What is nothing has no sign.
  return std::abs(*number) < 0.005 ? fmt::format("0 {}", unit)
                                   : fmt::format("{:+.2f} {}", *number, unit);
}

std::string signed_error(const Cell& cell) {
  return cell.unit == "%" ? signed_text(cell.error_points(), "pt")
                          : signed_text(cell.error_percent(), "%");
}

Table parameter_table(const Refit& refit) {
  Table table{{{"parameter"},
               {"unit"},
               {"file", true},
               {"refitted", true},
               {"difference", true},
               {"flat within", true}},
              {}};
  for (const FittedParameter& p : refit.parameters)
    table.rows.push_back({p.key, p.unit, format_number(p.file), format_number(p.refitted),
                          fmt::format("{:+.2f} %{}", 100 * (p.file / p.refitted - 1),
                                      p.differs() ? " (differs)" : ""),
                          fmt::format("± {:.2f} %", 100 * p.flat / p.refitted)});
  return table;
}

Table fitted_table(const Refit& refit) {
  Table table{{{"artifact"},
               {"row"},
               {"column"},
               {"unit"},
               {"paper", true},
               {"file", true},
               {"error", true},
               {"refitted", true},
               {"error", true}},
              {}};
  for (const auto& [file, again] : refit.cells)
    table.rows.push_back({file.artifact, file.row, file.column, file.unit,
                          format_number(file.paper), format_number(file.value), signed_error(file),
                          format_number(again.value), signed_error(again)});
  return table;
}

Table held_out_table(const std::vector<HeldOut>& held_out) {
  Table table{{{"artifact"},
               {"row"},
               {"column"},
               {"unit"},
               {"paper", true},
               {"virtual", true},
               {"error", true},
               {"remark"}},
              {}};
  for (const HeldOut& one : held_out) {
    for (const auto& [cell, seen] : one.cells)
      table.rows.push_back({one.artifact, cell.row, cell.column, cell.unit,
                            format_number(cell.paper), format_number(cell.value),
                            signed_error(cell),
                            !cell.value ? cell.reason
                            : seen      ? "a fitted cell's run"
                                        : ""});
    if (one.cells.empty())
      table.rows.push_back({one.artifact, "", "", "", "", "", "", "no number of the paper's"});
  }
  return table;
}

Table error_table(const std::vector<HeldOut>& held_out) {
  Table table{{{"artifact"},
               {"of"},
               {"cells", true},
               {"mean |error|", true},
               {"worst", true},
               {"unseen cells", true},
               {"mean |error|", true},
               {"worst", true}},
              {}};
  const auto add = [&](const HeldOut& one, const char* of, const char* unit,
                       Errors ErrorsOfCells::*errors) {
    const Errors &all = one.all.*errors, &unseen = one.unseen.*errors;
    if (all.cells == 0) return;
    const auto text = [&](const Errors& e, double number) {
      return e.cells == 0 ? "" : fmt::format("{:.2f} {}", number, unit);
    };
    table.rows.push_back({one.artifact, of, std::to_string(all.cells), text(all, all.mean),
                          text(all, all.worst), std::to_string(unseen.cells),
                          text(unseen, unseen.mean), text(unseen, unseen.worst)});
  };
  for (const HeldOut& one : held_out) {
    add(one, "times and throughputs", "%", &ErrorsOfCells::percent);
    add(one, "percentages", "pt", &ErrorsOfCells::points);
  }
  return table;
}

/// "table4" of "korthikanti2022/table4".
std::string short_name(const std::string& id) { return id.substr(id.find('/') + 1); }

Table sensitivity_table(const Sensitivity& found) {
  Table table{{{"parameter"}, {"value", true}, {"unit"}, {"source"}}, {}};
  for (const std::string& id : found.artifacts)
    for (const char* sign : {"-", "+"})
      table.columns.push_back(
          {fmt::format("{} {}{:.0f} %", short_name(id), sign, 100 * Sensitivity::part), true});
  for (const ParameterSensitivity& one : found.parameters) {
    std::vector<std::string> row{one.parameter.key, format_number(one.parameter.value),
                                 one.parameter.unit, one.fitted ? "fitted" : "other"};
    for (size_t i = 0; i < found.artifacts.size(); ++i)
      for (const Varied* varied : {&one.less, &one.more})
        row.push_back(!varied->reason.empty()
                          ? "-"
                          : signed_text(varied->artifacts[i].longer_than(found.unchanged[i]), "%"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<const PublishedMachine*> machines_in(const Published& found) {
  std::vector<const PublishedMachine*> all{&found.file};
  for (const PublishedMachine& other : found.others) all.push_back(&other);
  all.push_back(&found.shortest);
  all.push_back(&found.longest);
  return all;
}

std::string title_of(const PublishedMachine& machine, const Published& found) {
  if (&machine == &found.file) return "the file's values";
  if (&machine == &found.shortest) return "the shortest times";
  if (&machine == &found.longest) return "the longest times";
  return fmt::format("{} = {:.4g}", machine.values.begin()->first, machine.values.begin()->second);
}

Table published_table(const Published& found) {
  Table table{{{"machine"}, {"fitted, rms", true}}, {}};
  for (const auto& one : found.file.held_out)
    for (const char* what : {"longer", "mean |error|", "worst"})
      table.columns.push_back({fmt::format("{} {}", short_name(one.artifact), what), true});
  for (const PublishedMachine* machine : machines_in(found)) {
    std::vector<std::string> row{title_of(*machine, found), fmt::format("{:.2f} %", machine->rms)};
    for (const auto& one : machine->held_out) {
      row.push_back(signed_text(one.longer, "%"));
      row.push_back(fmt::format("{:.2f} %", one.errors.percent.mean));
      row.push_back(fmt::format("{:.2f} %", one.errors.percent.worst));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> left_out(const Sensitivity& found) {
  std::vector<std::string> all;
  for (const std::string& id : found.untimed) all.push_back(id + ": its cases take no time");
  for (const ParameterSensitivity& one : found.parameters)
    for (const Varied* varied : {&one.less, &one.more})
      if (!varied->reason.empty())
        all.push_back(fmt::format("{} {}{:.0f} %: {}", one.parameter.key,
                                  varied == &one.less ? "-" : "+", 100 * Sensitivity::part,
                                  varied->reason));
  return all;
}

nlohmann::json cell_json(const Cell& cell) {
  return {{"artifact", cell.artifact},
          {"row", cell.row},
          {"column", cell.column},
          {"unit", cell.unit},
          {"paper", or_null(cell.paper)},
          {"read", cell.read},
          {"value", or_null(cell.value)},
          {"error_percent", or_null(cell.error_percent())},
          {"error_points", or_null(cell.error_points())},
          {"status", name_of(cell.status)},
          {"reason", cell.reason}};
}

nlohmann::json errors_json(const Errors& errors) {
  if (errors.cells == 0) return nullptr;
  return {{"cells", errors.cells}, {"mean", errors.mean}, {"worst", errors.worst}};
}

nlohmann::json errors_json(const ErrorsOfCells& errors) {
  return {{"percent", errors_json(errors.percent)}, {"points", errors_json(errors.points)}};
}

nlohmann::json refit_json(const Refit& refit) {
  nlohmann::json parameters = nlohmann::json::array(), cells = nlohmann::json::array();
  for (const FittedParameter& p : refit.parameters)
    parameters.push_back(
        {{"key", p.key},
         {"unit", p.unit},
         {"file", p.file},
         {"refitted", p.refitted},
         {"flat", std::isfinite(p.flat) ? nlohmann::json(p.flat) : nlohmann::json(nullptr)},
         {"differs", p.differs()}});
  for (const auto& [file, again] : refit.cells) {
    nlohmann::json cell = cell_json(file);
    cell["refitted"] = or_null(again.value);
    cell["refitted_error_percent"] = or_null(again.error_percent());
    cells.push_back(std::move(cell));
  }
  return {{"parameters", parameters},
          {"cells", cells},
          {"rms_percent", {{"file", refit.rms_file}, {"refitted", refit.rms_refitted}}}};
}

nlohmann::json held_out_json(const std::vector<HeldOut>& held_out) {
  nlohmann::json all = nlohmann::json::array();
  for (const HeldOut& one : held_out) {
    nlohmann::json cells = nlohmann::json::array();
    for (const auto& [cell, seen] : one.cells) {
      cells.push_back(cell_json(cell));
      cells.back()["seen"] = seen;
    }
    all.push_back({{"artifact", one.artifact},
                   {"cells", cells},
                   {"errors", errors_json(one.all)},
                   {"errors_unseen", errors_json(one.unseen)}});
  }
  return all;
}

nlohmann::json varied_json(const Varied& varied, const Sensitivity& found) {
  nlohmann::json artifacts = nlohmann::json::array();
  for (size_t i = 0; i < varied.artifacts.size(); ++i)
    artifacts.push_back(
        {{"artifact", found.artifacts[i]},
         {"time_percent", or_null(varied.artifacts[i].longer_than(found.unchanged[i]))},
         {"errors", errors_json(varied.artifacts[i].errors)}});
  return {{"value", varied.value}, {"reason", varied.reason}, {"artifacts", artifacts}};
}

nlohmann::json sensitivity_json(const Sensitivity& found) {
  nlohmann::json parameters = nlohmann::json::array(), unchanged = nlohmann::json::array();
  for (size_t i = 0; i < found.artifacts.size(); ++i)
    unchanged.push_back(
        {{"artifact", found.artifacts[i]}, {"errors", errors_json(found.unchanged[i].errors)}});
  for (const ParameterSensitivity& one : found.parameters)
    parameters.push_back({{"key", one.parameter.key},
                          {"value", one.parameter.value},
                          {"unit", one.parameter.unit},
                          {"source", one.parameter.source},
                          {"fitted", one.fitted},
                          {"effect_percent", found.effect(one)},
                          {"less", varied_json(one.less, found)},
                          {"more", varied_json(one.more, found)}});
  return {{"part", Sensitivity::part},
          {"unchanged", unchanged},
          {"untimed", found.untimed},
          {"parameters", parameters}};
}

nlohmann::json published_json(const Published& found) {
  nlohmann::json all = nlohmann::json::array();
  for (const PublishedMachine* machine : machines_in(found)) {
    nlohmann::json artifacts = nlohmann::json::array();
    for (const auto& one : machine->held_out)
      artifacts.push_back({{"artifact", one.artifact},
                           {"longer_percent", one.longer},
                           {"errors", errors_json(one.errors)}});
    all.push_back({{"machine", title_of(*machine, found)},
                   {"values", machine->values},
                   {"source", machine->source},
                   {"fitted", machine->fitted},
                   {"rms_percent", machine->rms},
                   {"held_out", artifacts}});
  }
  return all;
}

}  // namespace

std::string CalibrationReport::text() const {
  std::string out = fmt::format("{}: {}\n\nFitted again\n\n{}\n{}\n", machine, description,
                                parameter_table(refit).text(), fitted_table(refit).text());
  out += fmt::format("rms of the errors: {:.3f} % with the file's values, {:.3f} % refitted\n",
                     refit.rms_file, refit.rms_refitted);
  if (held_out)
    out += fmt::format("\nHeld out\n\n{}\n{}", held_out_table(*held_out).text(),
                       error_table(*held_out).text());
  if (sensitivity) {
    out += fmt::format("\nMean time with one parameter changed\n\n{}",
                       sensitivity_table(*sensitivity).text());
    const auto remarks = left_out(*sensitivity);
    if (!remarks.empty()) out += "\n";
    for (const std::string& remark : remarks) out += "- left out: " + remark + "\n";
  }
  if (published)
    out += fmt::format(
        "\nOther published values, one at a time, and all that shorten or lengthen {}"
        "\n\n{}",
        published->file.held_out.empty() ? "it"
                                         : short_name(published->file.held_out.front().artifact),
        published_table(*published).text());
  for (const std::string& violation : violations) out += "\n" + violation + "\n";
  return out;
}

nlohmann::json CalibrationReport::json() const {
  return {{"schema", "frugal.calibration/1"},
          {"machine", machine},
          {"description", description},
          {"command", command},
          {"refit", refit_json(refit)},
          {"held_out", held_out ? held_out_json(*held_out) : nlohmann::json(nullptr)},
          {"sensitivity", sensitivity ? sensitivity_json(*sensitivity) : nlohmann::json(nullptr)},
          {"published", published ? published_json(*published) : nlohmann::json(nullptr)},
          {"violations", violations}};
}

}  // namespace frugal::harness
