#include "engine/schedule/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/schedule/text.h"

namespace frugal::engine {
namespace {

constexpr int batch_colours = 4;

/// Width where none is asked for: one very short pass does not make the others endless.
constexpr double widest_picture = 1 << 16;

double length(const Timeline& timeline) { return timeline.end() - timeline.begin(); }

/// A unit's width at which the shortest pass is `least` wide; 0 without any.
double readable(const Timeline& timeline, double least) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (is_pass(span.action.kind) && span.end > span.begin)
        shortest = std::min(shortest, span.end - span.begin);
  return least / shortest;
}

/// Colour of the batch that a pass belongs to.
int colour_of(const Timeline& timeline, const Action& pass) {
  return pass.microbatch / std::max(timeline.microbatches, 1) % batch_colours;
}

/// "3", or "3b" for the second of several chunks.
std::string cell_label(const Timeline& timeline, const Action& pass) {
  if (timeline.chunks == 1) return fmt::format("{}", pass.microbatch);
  return fmt::format("{}{}", pass.microbatch, static_cast<char>('a' + pass.chunk % 26));
}

/// Widths of a unit of time in each timeline, so that the shortest pass of any is `least` wide, and
/// no timeline wider than `most` (0: as wide as that takes).
std::vector<double> scales(const std::vector<Timeline>& timelines, double least, double most) {
  double width = 0;
  for (const Timeline& timeline : timelines)
    width = std::max(width, length(timeline) * readable(timeline, least));
  width = std::min(width, most > 0 ? most : widest_picture);
  std::vector<double> out;
  for (const Timeline& timeline : timelines) {
    double longest = 0;
    for (const Timeline& other : timelines)
      if (other.unit == timeline.unit) longest = std::max(longest, length(other));
    out.push_back(longest > 0 ? width / longest : 0);
  }
  return out;
}

// An SVG file.

// Pixels.
constexpr double margin = 16, name_width = 60, share_width = 74, cell_height = 26, row_pitch = 30;
constexpr double title_height = 28, axis_height = 26, legend_height = 30, font = 12;
constexpr double least_cell = 24, widest_timeline = 1800, between_ticks = 56;

// For each batch in turn: forward, backward, weight backward.
constexpr std::array<std::array<std::string_view, 3>, batch_colours> fills = {
    {{"#bcd6f2", "#2f6fb3", "#84b0de"},
     {"#fbdab5", "#d0690a", "#f0ae6a"},
     {"#c2e5c9", "#2b8552", "#83c498"},
     {"#decef0", "#754ab0", "#b093d6"}}};

int shade_of(ActionKind kind) {
  if (kind == ActionKind::forward) return 0;
  return kind == ActionKind::weight_backward ? 2 : 1;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string text_at(double x, double y, std::string_view style, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, style,
                     escaped(text));
}

std::string rectangle(double x, double y, double width, std::string_view style,
                      double height = cell_height) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" class=\"{}\"/>\n", x, y,
      width, height, style);
}

std::string head(double width, double height) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n<style>\ntext {{ font: {2:.0f}px 'DejaVu Sans', Verdana, sans-serif; "
      "fill: #27313d }}\n.title {{ font-weight: bold; font-size: 14px }}\n.right {{ text-anchor: "
      "end }}\n.cell {{ text-anchor: middle }}\n.strong {{ text-anchor: middle; fill: #fff }}\n"
      ".tick {{ text-anchor: middle; font-size: 10px; fill: #6b7684 }}\n.idle {{ fill: #eceff3 }}\n"
      ".waiting {{ fill: #c5ceda }}\n.step {{ fill: #27313d }}\n"
      ".together {{ fill: none; stroke: #27313d; stroke-width: 1 }}\n",
      width, height, font);
  for (int batch = 0; batch < batch_colours; ++batch)
    for (int shade = 0; shade < 3; ++shade)
      out += fmt::format(".p{}{} {{ fill: {}; stroke: #fff; stroke-width: 1 }}\n", batch, shade,
                         fills[batch][shade]);
  return out + "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

/// One timeline with its left upper corner at (0, top).
class Panel {
 public:
  Panel(const Timeline& timeline, double top, double scale, double width)
      : timeline_(timeline), origin_(timeline.begin()), top_(top), scale_(scale), width_(width) {}

  static double height(const Timeline& timeline) {
    return title_height + row_pitch * static_cast<double>(timeline.stages.size()) + axis_height;
  }

  std::string draw() const {
    std::string out = text_at(margin, top_ + 0.6 * title_height, "title", timeline_.title);
    const std::vector<Bubble> idle = bubbles(timeline_);
    const std::vector<std::vector<Span>> waits = transits(timeline_);
    for (size_t stage = 0; stage < timeline_.stages.size(); ++stage) {
      const double y = row_top(stage), text = y + cell_height / 2 + 0.36 * font;
      out += text_at(margin, text, "", fmt::format("stage {}", stage));
      out += bar(timeline_.begin(), timeline_.end(), y, "idle");
      for (const Span& span : waits[stage]) out += bar(span.begin, span.end, y, "waiting");
      out += passes(timeline_.stages[stage], y);
      for (const Span& span : timeline_.stages[stage])  // over their neighbours: they may be short
        if (span.action.kind == ActionKind::step)
          out += rectangle(x_of(span.begin) - 1, y, x_of(span.end) - x_of(span.begin) + 2, "step");
      out += text_at(margin + name_width + width_ + share_width, text, "right",
                     fmt::format("idle {:.0f} %", 100 * idle[stage].idle_fraction()));
    }
    return out + axis();
  }

 private:
  double row_top(size_t stage) const {
    return top_ + title_height + row_pitch * static_cast<double>(stage);
  }
  double x_of(double time) const { return margin + name_width + (time - origin_) * scale_; }

  std::string bar(double begin, double end, double y, std::string_view style) const {
    return rectangle(x_of(begin), y, x_of(end) - x_of(begin), style);
  }

  /// Two that are made together share a cell, one above the other, with a border.
  std::string passes(const std::vector<Span>& spans, double y) const {
    std::string out;
    for (size_t i = 0; i < spans.size(); ++i) {
      const Span& span = spans[i];
      if (!is_pass(span.action.kind)) continue;
      const bool together = span.action.beside_next;
      out += pass_cell(span, y, together ? cell_height / 2 : cell_height);
      if (!together) continue;
      out += pass_cell(spans[++i], y + cell_height / 2, cell_height / 2);
      out += bar(span.begin, span.end, y, "together");
    }
    return out;
  }

  /// A pass: its cell, its label where that fits, and what it is where the pointer rests on it.
  std::string pass_cell(const Span& span, double y, double height) const {
    const int shade = shade_of(span.action.kind);
    const double x = x_of(span.begin), width = x_of(span.end) - x;
    const std::string label = cell_label(timeline_, span.action);
    std::string out = fmt::format("<g><title>{}: {:.6g} to {:.6g}{}</title>\n",
                                  escaped(to_text(span.action, timeline_.chunks)), span.begin,
                                  span.end, timeline_.unit.empty() ? "" : " " + timeline_.unit);
    out += rectangle(x, y, width, fmt::format("p{}{}", colour_of(timeline_, span.action), shade),
                     height);
    if (static_cast<double>(label.size()) * 0.66 * font < width)
      out += text_at(x + width / 2, y + height / 2 + 0.36 * font, shade == 1 ? "strong" : "cell",
                     label);
    return out + "</g>\n";
  }

  std::string axis() const {
    if (scale_ <= 0) return "";
    const double y = row_top(timeline_.stages.size()) + 8;
    const double step = round_step(between_ticks / scale_);
    std::string out;
    const int ticks = static_cast<int>((timeline_.end() - origin_) / step + 1e-6);
    for (int i = 0; i <= ticks; ++i)
      out += text_at(x_of(origin_ + i * step), y, "tick", fmt::format("{:.4g}", i * step));
    if (!timeline_.unit.empty())
      out += text_at(margin + name_width + width_ + 10, y, "tick", timeline_.unit);
    return out;
  }

  const Timeline& timeline_;
  double origin_, top_, scale_, width_;
};

/// About how wide a text is.
double width_of(std::string_view text) { return 0.56 * font * static_cast<double>(text.size()); }

/// Draws what the colours mean; `right` is set to where it ends.
std::string legend(const std::vector<Timeline>& timelines, double y, double& right) {
  struct Entry {
    std::string_view style, text;
    bool shown;
  };
  const auto any = [&](ActionKind kind) {
    for (const Timeline& timeline : timelines)
      for (const auto& spans : timeline.stages)
        for (const Span& span : spans)
          if (span.action.kind == kind) return true;
    return false;
  };
  bool waiting = false, chunked = false, together = false;
  for (const Timeline& timeline : timelines) {
    for (const auto& spans : timeline.stages)
      for (const Span& span : spans) together = together || span.action.beside_next;
    for (const auto& spans : transits(timeline)) waiting = waiting || !spans.empty();
    chunked = chunked || timeline.chunks > 1;
  }
  const Entry entries[] = {{"p00", "forward", true},
                           {"p01", "backward", any(ActionKind::backward)},
                           {"p01", "backward of inputs", any(ActionKind::input_backward)},
                           {"p02", "backward of weights", any(ActionKind::weight_backward)},
                           {"together", "made together", together},
                           {"step", "step", any(ActionKind::step)},
                           {"waiting", "waiting for a message on its way", waiting},
                           {"idle", "idle", true}};
  double x = margin + name_width;
  std::string out;
  for (const Entry& entry : entries) {
    if (!entry.shown) continue;
    const double width = entry.style == "step" ? 2 : 14;
    out +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"14\" class=\"{}\"/>\n",
                    x, y - 11, width, entry.style);
    out += text_at(x + width + 5, y, "", std::string(entry.text));
    x += width + 24 + width_of(entry.text);
  }
  const std::string_view cells = chunked ? "Colour: batch. Number: microbatch. Letter: chunk."
                                         : "Colour: batch. Number: microbatch.";
  right = x + width_of(cells);
  return out + text_at(x, y, "", std::string(cells));
}

// Text.

/// Look of a kind of pass: its letter and what fills its cell.
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

std::string draw_svg(const std::vector<Timeline>& timelines) {
  const std::vector<double> units = scales(timelines, least_cell, widest_timeline);
  double width = 0, height = margin / 2;
  for (size_t i = 0; i < timelines.size(); ++i) {
    width = std::max(width, (timelines[i].end() - timelines[i].begin()) * units[i]);
    height += Panel::height(timelines[i]);
  }
  double right = 0;
  const std::string explained = legend(timelines, height + 0.5 * legend_height, right);
  const double all = std::max(2 * margin + name_width + width + share_width, right + margin);
  std::string out = head(all, height + legend_height);
  double top = margin / 2;
  for (size_t i = 0; i < timelines.size(); ++i) {
    out += Panel(timelines[i], top, units[i], width).draw();
    top += Panel::height(timelines[i]);
  }
  return out + explained + "</svg>\n";
}

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
