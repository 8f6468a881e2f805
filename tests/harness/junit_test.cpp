#include "harness/report/formats/junit.h"

#include <gmock/gmock.h>

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(JUnit, CountsWhatFailedAndWhatWasSkipped) {
  const std::string xml =
      junit_xml("compare", {{"bench/gemm", "64", JUnitCase::Outcome::failed, "1.2 times", "p", 2},
                            {"bench/gemm", "128", JUnitCase::Outcome::skipped, "no record"},
                            {"bench/gemm", "256"}});
  EXPECT_THAT(xml, HasSubstr("<testsuite name=\"compare\" tests=\"3\" failures=\"1\" errors=\"0\" "
                             "skipped=\"1\" time=\"2.000\">"));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"1.2 times\"/>"));
  EXPECT_THAT(xml, HasSubstr("<skipped message=\"no record\"/>"));
  EXPECT_THAT(xml, HasSubstr("<system-out>p</system-out>"));
}

TEST(JUnit, EscapesWhatWouldBeMarkupAndDropsWhatXmlCannotHold) {
  const std::string xml =
      junit_xml("a<b", {{"g", "\"x\" & y\x01", JUnitCase::Outcome::passed, "", "1 < 2"}});
  EXPECT_THAT(xml, HasSubstr("name=\"a&lt;b\""));
  EXPECT_THAT(xml, HasSubstr("name=\"&quot;x&quot; &amp; y\""));
  EXPECT_THAT(xml, HasSubstr("1 &lt; 2"));
  EXPECT_THAT(xml, Not(HasSubstr("\x01")));
}

}  // namespace
}  // namespace frugal::harness
