#include "engine/schedule/text.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/engine/schedule/shapes.h"
#include "tests/main/left_out.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

FRUGAL_LEFT_OUT(thread, "ScheduleText.*", "one thread");
TEST(ScheduleText, LoadsWhatWasSaved) {
  for_all_shapes([](ScheduleKind kind, const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(kind, shape);
    EXPECT_TRUE(schedule_from_text(to_text(schedule), "x") == schedule);
  });
}

TEST(ScheduleText, IsReadable) {
  const Schedule schedule =
      make_schedule(ScheduleKind::one_forward_one_backward, {.stages = 2, .microbatches = 2});
  const std::string text =
      "frugal schedule 1\nkind 1f1b\nstages 2\nchunks 1\nmicrobatches 2\nfirst-batch 0\nbatches 1\n"
      "\nstage 0\nF0@0 F0>\nF1@0 F1>\n<B0 B0@0\n<B1 B1@0\nstep@1\n"
      "\nstage 1\n<F0 F0@0\nB0@0 B0>\n<F1 F1@0\nB1@0 B1>\nstep@1\n";
  EXPECT_EQ(to_text(schedule), text);
  // Comments, blanks, and where lines end mean nothing.
  const std::string other =
      "# mine\nfrugal  schedule 1 # the format\r\nkind 1f1b\nstages 2\nchunks 1\nmicrobatches 2\n"
      "first-batch 0\nbatches 1\nstage 0\n\tF0@0 F0> F1@0 F1> <B0\nB0@0 <B1 B1@0 step@1\n\n"
      "stage 1\n<F0 F0@0 B0@0 B0> <F1 F1@0 B1@0 B1> step@1";
  EXPECT_TRUE(schedule_from_text(other, "x") == schedule);
}

TEST(ScheduleText, MistakesAreNamedWithTheirLine) {
  const std::string header =
      "frugal schedule 1\nkind gpipe\nstages 2\nchunks 1\nmicrobatches 1\nfirst-batch 0\nbatches "
      "1\n";
  const std::string interleaved =
      "frugal schedule 1\nkind interleaved\nstages 2\nchunks 2\nmicrobatches 2\nfirst-batch 0\n"
      "batches 1\nstage 0\n";
  struct Case {
    std::string text;
    std::string says;
  };
  const Case cases[] = {
      {"", "x line 1: the file ends; a schedule begins with \"frugal schedule 1\""},
      {"frugal schedule 2\n", "x line 1: \"frugal schedule 2\"; a schedule begins with"},
      {"frugal schedule 1\nkind 1F1B\n",
       "x line 2: \"kind 1F1B\"; here must be \"kind\" and one of"},
      {"frugal schedule 1\nkind gpipe\nstage 2\n",
       "x line 3: \"stage 2\"; here must be \"stages\""},
      {"frugal schedule 1\nkind gpipe\nstages -2\n", "line 3: \"stages -2\""},
      {"frugal schedule 1\nkind gpipe\nstages 2x\n", "line 3: \"stages 2x\""},
      {"frugal schedule 1\nkind gpipe\nstages 99999999999\n", "line 3: \"stages 99999999999\""},
      {"frugal schedule 1\nkind gpipe\nstages 2\n",
       "line 3: the file ends; here must be \"chunks\""},
      {"frugal schedule 1\nkind 2bw\nstages 2\nchunks 1\nmicrobatches 1\nfirst-batch 0\nbatches "
       "1\n",
       "x: schedule 2bw: microbatches (1) must be at least stages (2)"},
      {header + "F0@0\n", "x line 8: \"F0@0\"; actions come after \"stage 0\""},
      {header + "stage 1\n", "x line 8: \"stage 1\"; stages come in order, from 0 to 1"},
      {header + "stage 0\nstage 1\nstage 2\n", "x line 10: \"stage 2\""},
      {header + "stage 0x\n", "x line 8: \"stage 0x\""},
      {header + "stage\n", "x line 8: \"stage\""},
      {header + "stage 0\nF0@0\n", "x line 9: the file ends after 1 stages; there are 2"},
      {header + "stage 0\nF0@0 G1@0\n", "x line 9: \"G1@0\" is not an action; an action is F0@0,"},
      {header + "stage 0\n& F0@0", "x line 9: \"& F0@0\"; before \"&\" there must be"},
      {header + "stage 0\nF0@0 & & B0@0", "before \"&\" there must be"},
      {header + "stage 0\nF0@0 &B0@0", "\"&B0@0\" is not an action"},
      {interleaved + "F0@0", "x line 9: \"F0@0\" is not an action; an action is F0.0@0"},
  };
  for (const Case& wrong : cases) {
    EXPECT_THAT(message_of<InputError>([&] { (void)schedule_from_text(wrong.text, "x"); }),
                ::testing::HasSubstr(wrong.says));
  }
  for (const char* word :
       {"F",     "F0",  "F0@",  "F0@x",   "F-1@0",   "F0@-1",         "F0@0>", "<F0>",
        "<F0@0", "<W0", "I0>",  "F0.0@0", "step",    "step@",         "step1", "<",
        ">",     "@",   "f0@0", "F0@0x",  "step@1>", "F99999999999@0"})
    EXPECT_THROW(schedule_from_text(header + "stage 0\n" + word + "\nstage 1\n", "x"), InputError)
        << word;
}

}  // namespace
}  // namespace frugal::engine
