#include "engine/schedule/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Text of an action but a step: what is before and behind its microbatch and chunk. A version
/// follows an @.
struct Spelling {
  ActionKind kind;
  std::string_view before, behind;
};
constexpr Spelling spellings[] = {{ActionKind::forward, "F", "@"},
                                  {ActionKind::backward, "B", "@"},
                                  {ActionKind::input_backward, "I", "@"},
                                  {ActionKind::weight_backward, "W", "@"},
                                  {ActionKind::receive_activation, "<F", ""},
                                  {ActionKind::send_activation, "F", ">"},
                                  {ActionKind::receive_gradient, "<B", ""},
                                  {ActionKind::send_gradient, "B", ">"}};

std::string help(bool chunked) {
  return fmt::format(
      "an action is F{0}@0, B{0}@0, I{0}@0, W{0}@0, <F{0}, F{0}>, <B{0}, B{0}> or step@1, and & is "
      "between passes that are made together",
      chunked ? "0.0" : "0");
}

bool consume(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// A whole number ≥ 0 at the beginning of the text.
bool consume(std::string_view& text, int& number) {
  if (text.empty() || text.front() == '-') return false;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(stop - text.data());
  return true;
}

/// Reads an action that is spelled so; nothing where the word is not.
std::optional<Action> action_of(std::string_view word, const Spelling& as, bool chunked) {
  Action action{.kind = as.kind};
  const bool read = consume(word, as.before) && consume(word, action.microbatch) &&
                    (!chunked || (consume(word, ".") && consume(word, action.chunk))) &&
                    consume(word, as.behind) &&
                    (as.behind != "@" || consume(word, action.version)) && word.empty();
  return read ? std::optional(action) : std::nullopt;
}

std::optional<Action> action_of(std::string_view word, bool chunked) {
  Action step{.kind = ActionKind::step};
  if (consume(word, "step@") && consume(word, step.version) && word.empty()) return step;
  for (const Spelling& spelling : spellings)
    if (const auto action = action_of(word, spelling, chunked)) return action;
  return std::nullopt;
}

/// The words of a text, line by line; lines without any are passed over.
class Lines {
 public:
  Lines(std::string_view text, std::string name) : rest_(text), name_(std::move(name)) {}

  /// The next line's words; none at the end of the text.
  const std::vector<std::string_view>& next() {
    words_.clear();
    while (words_.empty() && !rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      split(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
    }
    return words_;
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{} line {}: {}", name_, std::max(number_, 1), message));
  }

  /// The line as it stands, for messages.
  std::string quoted() const {
    if (words_.empty()) return "the file ends";
    std::string line;
    for (const std::string_view word : words_)
      line += fmt::format("{}{}", line.empty() ? "" : " ", word);
    line = line.substr(0, 60);
    // A file that is no text must not speak to the terminal.
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return fmt::format("\"{}\"", line);
  }

 private:
  void split(std::string_view line) {
    line = line.substr(0, line.find('#'));
    constexpr std::string_view blanks = " \t\r";
    for (size_t at = line.find_first_not_of(blanks); at < line.size();
         at = line.find_first_not_of(blanks, at)) {
      const size_t end = std::min(line.find_first_of(blanks, at), line.size());
      words_.push_back(line.substr(at, end - at));
      at = end;
    }
  }

  std::string_view rest_;
  std::string name_;
  int number_ = 0;
  std::vector<std::string_view> words_;
};

int number_of(Lines& lines, std::string_view key) {
  const auto& words = lines.next();
  int number = 0;
  if (words.size() == 2 && words[0] == key)
    if (std::string_view text = words[1]; consume(text, number) && text.empty()) return number;
  lines.fail(fmt::format("{}; here must be \"{}\" and a whole number", lines.quoted(), key));
}

Schedule header_of(Lines& lines, const std::string& name) {
  if (lines.next() != std::vector<std::string_view>{"frugal", "schedule", "1"})
    lines.fail(fmt::format("{}; a schedule begins with \"frugal schedule 1\"", lines.quoted()));
  const auto& words = lines.next();
  const auto kind =
      words.size() == 2 && words[0] == "kind" ? schedule_kind(words[1]) : std::nullopt;
  if (!kind)
    lines.fail(fmt::format("{}; here must be \"kind\" and one of {}", lines.quoted(),
                           fmt::join(ScheduleKind::names(), ", ")));
  ScheduleShape shape;
  shape.stages = number_of(lines, "stages");
  shape.chunks = number_of(lines, "chunks");
  shape.microbatches = number_of(lines, "microbatches");
  shape.first_batch = number_of(lines, "first-batch");
  shape.batches = number_of(lines, "batches");
  try {
    shape.validate(*kind);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", name, error.what()));
  }
  return {.kind = *kind,
          .stages = shape.stages,
          .chunks = shape.chunks,
          .microbatches = shape.microbatches,
          .first_batch = shape.first_batch,
          .batches = shape.batches,
          .actions = {}};
}

}  // namespace

std::string to_text(const Action& action, int chunks) {
  if (action.kind == ActionKind::step) return fmt::format("step@{}", action.version);
  const Spelling& spelling = *std::ranges::find(spellings, action.kind, &Spelling::kind);
  return fmt::format("{}{}{}{}{}", spelling.before, action.microbatch,
                     chunks == 1 ? "" : fmt::format(".{}", action.chunk), spelling.behind,
                     is_pass(action.kind) ? fmt::format("{}", action.version) : "");
}

std::string to_text(const Schedule& schedule) {
  std::string out = fmt::format(
      "frugal schedule 1\nkind {}\nstages {}\nchunks {}\nmicrobatches {}\nfirst-batch {}\n"
      "batches {}\n",
      name_of(schedule.kind), schedule.stages, schedule.chunks, schedule.microbatches,
      schedule.first_batch, schedule.batches);
  for (size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    out += fmt::format("\nstage {}\n", stage);
    // A line has a pass, or two that are made together, with what it receives and sends.
    bool goes_on = false, begun = false;
    for (const Action& action : schedule.actions[stage]) {
      if (begun) out += goes_on || is_send(action.kind) ? ' ' : '\n';
      out += to_text(action, schedule.chunks);
      if (action.beside_next) out += " &";
      goes_on = action.beside_next || (is_message(action.kind) && !is_send(action.kind));
      begun = true;
    }
    if (begun) out += '\n';
  }
  return out;
}

Schedule schedule_from_text(std::string_view text, const std::string& name) {
  Lines lines(text, name);
  Schedule schedule = header_of(lines, name);
  const bool chunked = schedule.chunks > 1;
  const auto stages = [&] { return static_cast<int>(schedule.actions.size()); };
  for (auto words = lines.next(); !words.empty(); words = lines.next()) {
    if (words[0] == "stage") {
      int stage = -1;
      if (words.size() == 2) consume(words[1], stage);
      if (stage != stages() || stage >= schedule.stages || !words[1].empty())
        lines.fail(fmt::format("{}; stages come in order, from 0 to {}, and the next is {}",
                               lines.quoted(), schedule.stages - 1, stages()));
      schedule.actions.emplace_back();
      continue;
    }
    if (schedule.actions.empty())
      lines.fail(fmt::format("{}; actions come after \"stage 0\"", lines.quoted()));
    for (const std::string_view word : words) {
      Actions& actions = schedule.actions.back();
      if (word == "&") {
        if (actions.empty() || actions.back().beside_next)
          lines.fail(
              fmt::format("{}; before \"&\" there must be a pass, with which the one behind "
                          "it is made together",
                          lines.quoted()));
        actions.back().beside_next = true;
        continue;
      }
      const auto action = action_of(word, chunked);
      if (!action) lines.fail(fmt::format("\"{}\" is not an action; {}", word, help(chunked)));
      actions.push_back(*action);
    }
  }
  if (stages() != schedule.stages)
    lines.fail(
        fmt::format("the file ends after {} stages; there are {}", stages(), schedule.stages));
  return schedule;
}

}  // namespace frugal::engine
