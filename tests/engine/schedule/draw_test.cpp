#include "engine/schedule/draw.h"

#include <gmock/gmock.h>

#include "engine/schedule/schedules.h"
#include "tests/engine/schedule/shapes.h"
#include "tests/main/left_out.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Timeline planned(ScheduleKind kind, const ScheduleShape& shape) {
  return simulate(make_schedule(kind, shape));
}

// By hand, from the passes' times.
FRUGAL_LEFT_OUT(thread, "Draw*", "one thread");
TEST(DrawText, IsOneRowPerStage) {
  EXPECT_EQ(
      draw_text({planned(ScheduleKind::one_forward_one_backward, {.stages = 2, .microbatches = 2})},
                false),
      "1f1b\n"
      "stage 0  F0─F1─      B0════   B1════\n"
      "stage 1     F0─B0════F1─B1════\n");
  EXPECT_EQ(
      draw_text({planned(ScheduleKind::zero_bubble_h1, {.stages = 2, .microbatches = 2})}, false),
      "zb-h1\n"
      "stage 0  F0─F1─   I0═W0┄I1═W1┄\n"
      "stage 1     F0─I0═F1─I1═W0┄W1┄\n");
  EXPECT_EQ(
      draw_text({planned(ScheduleKind::interleaved, {.stages = 1, .chunks = 2, .microbatches = 1})},
                false),
      "interleaved\nstage 0  F0a─F0b─B0b═════B0a═════\n");
}

TEST(DrawText, ColoursBatchesInTurn) {
  const std::string text =
      draw_text({planned(ScheduleKind::gpipe, {.stages = 1, .batches = 5})}, true);
  EXPECT_EQ(count(text, "48;5;153m"), 2);  // the forwards of batches 0 and 4
  EXPECT_EQ(count(text, "48;5;223m"), 1);
  EXPECT_EQ(count(text, "\x1b[0m"), 10);
}

TEST(DrawText, ANarrowerOneLeavesOutLabelsThatDoNotFit) {
  const Timeline timeline =
      planned(ScheduleKind::one_forward_one_backward, {.stages = 2, .microbatches = 2});
  EXPECT_EQ(draw_text({timeline}, false, 9), "1f1b\nstage 0  FF  B0 B1\nstage 1   FB0FB1\n");
  const ScheduleShape tenth = {.stages = 1, .first_batch = 10};
  EXPECT_EQ(draw_text({planned(ScheduleKind::gpipe, tenth)}, false, 6), "gpipe\nstage 0  ──B10═\n");
}

/// A planned timeline as if it were measured: in seconds, and slower.
Timeline measured(Timeline timeline, double factor) {
  timeline.title = "measured";
  timeline.unit = "s";
  for (auto& spans : timeline.stages)
    for (Span& span : spans) {
      span.begin = 100 + span.begin * factor;
      span.end = 100 + span.end * factor;
    }
  return timeline;
}

TEST(DrawText, TwoOfOtherUnitsAreEquallyWide) {
  const Timeline plan = planned(ScheduleKind::gpipe, {.stages = 2, .microbatches = 3});
  const std::string one = draw_text({plan}, false),
                    two = draw_text({plan, measured(plan, 0.01)}, false);
  const std::string rows = one.substr(one.find('\n'));
  EXPECT_EQ(two, one + "\nmeasured (s)" + rows);
}

TEST(DrawSvg, HasACellForEachPassAndALineForEachStep) {
  for_all_shapes([](ScheduleKind kind, const ScheduleShape& shape) {
    if (shape.microbatches > 4 || shape.stages > 4) return;
    const Schedule schedule = make_schedule(kind, shape);
    int passes = 0;
    for (const Actions& actions : schedule.actions)
      for (const Action& action : actions) passes += is_pass(action.kind) ? 1 : 0;
    const std::string svg = draw_svg({simulate(schedule)});
    EXPECT_EQ(count(svg, "<title>"), passes);
    EXPECT_EQ(count(svg, "class=\"step\"/>"), shape.stages * shape.batches + 1);  // the legend's
    EXPECT_EQ(count(svg, "class=\"idle\"/>"), shape.stages + 1);
    EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
  });
}

TEST(DrawSvg, PlacesCellsByTime) {
  // The shortest pass is 24 pixels wide, and the rows begin at 76.
  const std::string svg =
      draw_svg({planned(ScheduleKind::gpipe, {.stages = 2, .microbatches = 1, .batches = 2})});
  EXPECT_THAT(svg, HasSubstr("<title>F0@0: 1 to 2</title>\n<rect x=\"100.00\" y=\"66.0\" "
                             "width=\"24.00\" height=\"26\" class=\"p00\"/>"));
  EXPECT_THAT(svg, HasSubstr("<title>B1@1: 10 to 12</title>\n<rect x=\"316.00\" y=\"36.0\" "
                             "width=\"48.00\" height=\"26\" class=\"p11\"/>"));
  EXPECT_THAT(svg, HasSubstr(">idle 50 %</text>"));
}

TEST(DrawSvg, PutsMeasuredUnderPlanned) {
  const Timeline plan = planned(ScheduleKind::gpipe, {.stages = 2, .microbatches = 3});
  const std::string svg = draw_svg({plan, measured(plan, 0.01)});
  EXPECT_LT(svg.find(">gpipe<"), svg.find(">measured<"));
  EXPECT_THAT(svg, HasSubstr("<title>F0@0: 100 to 100.01 s</title>\n<rect x=\"76.00\""));
  EXPECT_EQ(count(svg, "<title>"), 2 * 2 * 6);
  EXPECT_EQ(count(svg, "class=\"waiting\"/>"), 0);
}

TEST(DrawSvg, ShowsMessagesOnTheirWay) {
  const Timeline timeline =
      simulate(make_schedule(ScheduleKind::gpipe, {.stages = 2}), {.activation = 1, .gradient = 2});
  const std::string svg = draw_svg({timeline});
  EXPECT_EQ(count(svg, "class=\"waiting\"/>"), 2 + 1);  // the legend's
  EXPECT_THAT(svg, HasSubstr("waiting for a message on its way"));
}

TEST(Draw, OfNothingIsNothing) {
  Timeline nothing;
  nothing.stages.resize(2);
  EXPECT_EQ(draw_text({nothing}, false), "\nstage 0  \nstage 1  \n");
  for (const std::string& svg : {draw_svg({nothing}), draw_svg({})})
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace frugal::engine
