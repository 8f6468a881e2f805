#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "engine/schedule/check.h"
#include "engine/schedule/draw.h"
#include "engine/schedule/peaks.h"
#include "engine/schedule/schedules.h"
#include "engine/schedule/text.h"
#include "harness/cli/command_line.h"
#include "harness/report/table.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

struct ScheduleValues {
  std::vector<std::string> kinds;
  std::string file, format = "timeline";
  std::optional<int> stages, microbatches, chunks, batches, first_batch;
  int capacity = 1;
  double backward = 2, message = 0;
  bool late = false, check = false;
};

ScheduleKind kind_of(const std::string& name) {
  if (const auto kind = schedule_kind(name)) return *kind;
  throw InputError(fmt::format("KIND is \"{}\"; it must be one of {}", name,
                               fmt::join(ScheduleKind::names(), ", ")));
}

/// A schedule and what it is called in messages.
struct Named {
  std::string name;
  Schedule schedule;
};

/// A file says all that these flags would.
Named from_file(const ScheduleValues& values) {
  if (!values.kinds.empty())
    throw InputError(fmt::format(
        "KIND (\"{}\") is given with --file, which has a schedule of its own; leave one out",
        values.kinds.front()));
  refuse_beside_file("--file", {{"--stages", values.stages.has_value()},
                                {"--microbatches", values.microbatches.has_value()},
                                {"--chunks", values.chunks.has_value()},
                                {"--batches", values.batches.has_value()},
                                {"--first-batch", values.first_batch.has_value()}});
  return {values.file, schedule_from_text(read_text(values.file), values.file)};
}

std::vector<Named> schedules_of(const ScheduleValues& values) {
  if (!values.file.empty()) return {from_file(values)};
  if (values.kinds.empty())
    throw InputError(fmt::format("KIND is missing; give some of {}, or a schedule with --file",
                                 fmt::join(ScheduleKind::names(), ", ")));
  const auto required = [](const char* flag, std::optional<int> value) {
    if (!value) throw InputError(fmt::format("{} is missing; give a whole number from 1", flag));
    return *value;
  };
  const auto has_chunks = [](const std::string& name) { return kind_of(name).has_chunks; };
  // Beside one that has chunks, the others do without those that are meant for it.
  const bool for_all = std::none_of(values.kinds.begin(), values.kinds.end(), has_chunks);
  std::vector<Named> out;
  for (const std::string& name : values.kinds) {
    const ScheduleKind& kind = kind_of(name);
    const bool chunked = for_all || kind.has_chunks;
    // Beside others a kind that has a number of its own keeps to it.
    const bool own = values.kinds.size() > 1 && kind.chunks > 0;
    const int chunks = own ? kind.chunks : values.chunks.value_or(kind.usual_chunks());
    const ScheduleShape shape = {.stages = required("--stages", values.stages),
                                 .chunks = chunked ? chunks : 1,
                                 .microbatches = required("--microbatches", values.microbatches),
                                 .first_batch = values.first_batch.value_or(0),
                                 .batches = values.batches.value_or(1)};
    out.push_back({name, make_schedule(kind, shape)});
  }
  return out;
}

std::string title_of(const Schedule& schedule) {
  const auto counted = [](int count, std::string_view one, std::string_view several) {
    return fmt::format("{} {}", count, count == 1 ? one : several);
  };
  std::string title =
      fmt::format("{}: {}", name_of(schedule.kind), counted(schedule.stages, "stage", "stages"));
  if (schedule.chunks > 1) title += fmt::format(" of {} chunks", schedule.chunks);
  return title + fmt::format(", {} of {}", counted(schedule.batches, "batch", "batches"),
                             counted(schedule.microbatches, "microbatch", "microbatches"));
}

/// What each stage holds at most, and where its time goes.
Table table_of(const Schedule& schedule, const Timeline& timeline) {
  Table table = {.columns = {{"stage", true},
                             {"in flight", true},
                             {"versions", true},
                             {"busy", true},
                             {"start-up", true},
                             {"stalls", true},
                             {"messages", true},
                             {"drain", true},
                             {"idle %", true}},
                 .rows = {}};
  const std::vector<Bubble> idle = bubbles(timeline);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const Actions& actions = schedule.actions[stage];
    const Bubble& bubble = idle[stage];
    const int versions = peak_versions(actions, schedule.first_batch);
    std::vector<std::string> row = {fmt::format("{}", stage),
                                    fmt::format("{}", peak_in_flight(actions)),
                                    fmt::format("{}", versions)};
    for (const double time :
         {bubble.busy, bubble.start_up, bubble.stalls, bubble.communication, bubble.drain})
      row.push_back(format_number(time));
    row.push_back(fmt::format("{:.1f}", 100 * bubble.idle_fraction()));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Prints all findings; the first of them is the error.
void refuse_wrong(const ScheduleValues& values, const Named& named) {
  if (values.check) {
    constexpr size_t shown = 20;
    const std::vector<Finding> findings = check(named.schedule, values.capacity);
    for (size_t i = 0; i < std::min(findings.size(), shown); ++i)
      fmt::print("{}\n", findings[i].describe());
    if (findings.size() > shown) fmt::print("and {} more\n", findings.size() - shown);
  }
  require_valid(named.schedule, named.name, values.capacity);
}

Timeline timeline_of(const ScheduleValues& values, const Schedule& schedule) {
  const Durations durations = {.forward = 1,
                               .backward = values.backward,
                               .input_backward = values.backward / 2,
                               .weight_backward = values.backward / 2,
                               .activation = values.message,
                               .gradient = values.message};
  Timeline timeline = simulate(schedule, durations, values.late);
  timeline.title = title_of(schedule);
  return timeline;
}

Exit run(const ScheduleValues& values) {
  const std::vector<Named> all = schedules_of(values);
  for (const Named& named : all) refuse_wrong(values, named);
  if (values.format == "text" && !values.check) {
    if (all.size() > 1) throw InputError("--format text is of one KIND; leave out the others");
    fmt::print("{}", to_text(all.front().schedule));
    return Exit::done;
  }
  std::vector<Timeline> timelines;
  for (const Named& named : all) timelines.push_back(timeline_of(values, named.schedule));
  if (values.format == "svg" && !values.check) {
    fmt::print("{}", draw_svg(timelines));
    return Exit::done;
  }
  const bool colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  if (!values.check) fmt::print("{}", draw_text(timelines, colour));
  for (size_t i = 0; i < all.size(); ++i) {
    if (values.check)
      fmt::print("{}{}\nnothing is wrong with it; channels of {} messages do not block\n",
                 i == 0 ? "" : "\n", timelines[i].title, values.capacity);
    else
      fmt::print("\n{}", all.size() == 1 ? "" : timelines[i].title + "\n");
    fmt::print("{}", table_of(all[i].schedule, timelines[i]).text());
  }
  return Exit::done;
}

}  // namespace

void add_schedule(CommandLine& line) {
  const auto values = std::make_shared<ScheduleValues>();
  Flags flags = line.command("schedule", "Pipeline schedules: drawn, checked, or as a file",
                             [values] { return run(*values); });
  flags.positional("KIND", values->kinds,
                   fmt::format("One or several of {}", fmt::join(ScheduleKind::names(), ", ")),
                   false);
  flags.integer("--stages", values->stages, 1, "Pipeline stages [d]");
  flags.integer("--microbatches", values->microbatches, 1, "Microbatches of a batch [m]");
  flags.integer("--chunks", values->chunks, 1,
                fmt::format("Parts of the model on each stage, for {} [v]; 1 otherwise",
                            fmt::join(ScheduleKind::names(&ScheduleKind::has_chunks), ", ")));
  flags.integer("--batches", values->batches, 1, "Batches, one after another; 1 otherwise");
  flags.integer("--first-batch", values->first_batch, 0,
                "The first of them, counted from the run's beginning; 0 otherwise");
  flags.text("--file", values->file, "FILE",
             "Read the schedule from this file instead (docs/schedules.md)");
  flags.choice("--format", values->format, {"timeline", "text", "svg"},
               "Drawn in characters, as a file that --file reads, or drawn as SVG");
  flags.toggle("--check", values->check, "Print what the checker says instead");
  flags.integer("--capacity", values->capacity, 0,
                "Messages that a channel between stages holds, for the checker");
  flags.number("--backward", values->backward, 0, 1e6,
               "How long a backward takes, where a forward takes 1");
  flags.number("--message", values->message, 0, 1e6, "How long a message takes");
  flags.toggle("--late-warm-up", values->late,
               "Each stage's last warm-up forward as late as possible, as 1F1B is often drawn");
}

}  // namespace frugal::harness
