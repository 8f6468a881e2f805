#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/schedule/draw.h"
#include "engine/schedule/draw_parts.h"

namespace frugal::engine {
namespace {

/// How a kind of pass looks: its letter and what fills its cell.
struct Look {
  char letter;
  std::string_view fill;
};

Look look_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return {'F', "─"};
    case ActionKind::backward:
      return {'B', "═"};
    case ActionKind::input_backward:
      return {'I', "═"};
    default:
      return {'W', "┄"};
  }
}

/// ANSI's 256 colours: text and background of forwards, of backwards and of weight backwards, for
/// each batch in turn.
std::string ansi(const Timeline& timeline, const Action& pass) {
  struct Shades {
    int forward, backward, weights;
  };
  constexpr std::array<Shades, batch_colours> batches = {
      {{153, 25, 67}, {223, 166, 208}, {157, 28, 71}, {183, 54, 97}}};
  const Shades& shades = batches[colour_of(timeline, pass)];
  const bool forward = pass.kind == ActionKind::forward;
  const int back = forward                                    ? shades.forward
                   : pass.kind == ActionKind::weight_backward ? shades.weights
                                                              : shades.backward;
  return fmt::format("\x1b[38;5;{};48;5;{}m", forward ? 16 : 231, back);
}

std::string named(const Timeline& timeline, const Action& pass) {
  return fmt::format("{}{}", look_of(pass.kind).letter, cell_label(timeline, pass));
}

/// A pass in `width` columns, or two that are made together, with its label where that fits.
std::string cell(const Timeline& timeline, const Action& pass, const Action* beside, int width,
                 bool colour) {
  if (width <= 0) return "";
  const Action& looks = beside == nullptr ? pass : *beside;
  std::string text = named(timeline, pass);
  if (beside != nullptr) text += fmt::format("&{}", named(timeline, *beside));
  if (static_cast<int>(text.size()) > width) text.resize(width < 2 ? 1 : 0);
  const int rest = width - static_cast<int>(text.size());
  for (int i = 0; i < rest; ++i) text += colour ? " " : look_of(looks.kind).fill;
  return colour ? ansi(timeline, looks) + text + "\x1b[0m" : text;
}

std::string row(const Timeline& timeline, const std::vector<Span>& spans, double scale,
                bool colour) {
  const double origin = timeline.begin();
  std::string out;
  int at = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (!is_pass(span.action.kind)) continue;
    const Action* const beside = span.action.beside_next ? &spans[++i].action : nullptr;
    const int begin = std::max(at, static_cast<int>(std::lround((span.begin - origin) * scale)));
    const int end = std::max(begin, static_cast<int>(std::lround((span.end - origin) * scale)));
    out += std::string(begin - at, ' ') + cell(timeline, span.action, beside, end - begin, colour);
    at = end;
  }
  return out;
}

}  // namespace

std::string draw_text(const std::vector<Timeline>& timelines, bool colour, int columns) {
  size_t label = 0;
  for (const Timeline& timeline : timelines)
    for (const auto& spans : timeline.stages)
      for (const Span& span : spans)
        if (is_pass(span.action.kind))
          label = std::max(label, cell_label(timeline, span.action).size());
  // A letter, the label, and a blank that parts it from the next.
  const std::vector<double> units = scales(timelines, static_cast<double>(label) + 2, columns);
  std::string out;
  for (size_t i = 0; i < timelines.size(); ++i) {
    const Timeline& timeline = timelines[i];
    out += fmt::format("{}{}{}\n", i == 0 ? "" : "\n", timeline.title,
                       timeline.unit.empty() ? "" : fmt::format(" ({})", timeline.unit));
    const size_t digits = std::to_string(timeline.stages.size()).size();
    for (size_t stage = 0; stage < timeline.stages.size(); ++stage)
      out += fmt::format("stage {:<{}}  {}\n", stage, digits,
                         row(timeline, timeline.stages[stage], units[i], colour));
  }
  return out;
}

}  // namespace frugal::engine
