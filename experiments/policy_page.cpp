#include <fmt/format.h>

#include "experiments/policy.h"

namespace frugal::experiments::policy {
namespace {

constexpr const char* page = R"(# How far a number may be off

<!-- Written by `frugal docs`; a test compares. -->

Every number that stands beside one of a paper's has a verdict, and one policy says how far it may be off, for all papers
(`experiments/policy.h`). So shares of what is reproduced can be compared. `--check` of `frugal reproduce` counts the
verdicts, and exits with status 1 where a claim fails that nothing explains, where a claim would pass if what it is about
had no effect, and where a cell has no verdict. [reproduction.md](reproduction.md#verdicts) has the verdicts;
[inventory.md](inventory.md) has what of the papers is judged at all.

| a number is | such as | it may be off by |
|---|---|---|
| counted | bytes of tensors, layers, passes, lengths, FLOPs | the precision with which the paper has it |
| measured | memory of a process, in which libraries have their part | {measured:.3g} % |
| timed | seconds, and what is done in one | {timed:.3g} % |
| compared | a ratio of two such numbers, a percentage of one | {compared:.3g} % of a ratio, and {compared:.3g} % of the effect of a percentage |

- **The precision of the paper.** A printed number is known to half a unit of its last digit, a longest sequence in
  thousands of tokens to a whole one, a digitized number to what it was read to. Where that is more than the table says, it
  counts, but for ratios: 2.1 times may be off by 0.21 in any case.
- **The effect.** No number may be off by more than {effect:.0f} % of the effect, the distance to what it would be if what it
  is about had none. That is 1 for a ratio, and for others what `no_effect` of `paper.json` names: 0, 100 % of a baseline,
  or the number of the row beside which it stands. So "15 % faster" is not met by a run that is 7 % faster, and an overhead
  of 1.7 points not by one of 0.7. Where the paper's own precision does not tell the two rows apart, there is no effect to
  miss, and the number alone counts.
- **What passes for nothing** fails. A claim that the number without effect would meet, or of which nobody said what that
  is, is counted by `--check`, and there may be none. A claim of "at least" or "at most" has to pass the same test.
- **Stricter where more is known.** An artifact may have a tolerance that is narrower than the policy's, with its
  reason, such as 0.05 GiB in figure 9 of `korthikanti2022`. One that is wider has no effect.
- **What is so or not** (passes where a timeline has them, orders of systems, memory that runs out) is exact.

## What was measured

A number that a clock measured is judged by its whole interval, as equivalence tests do: noise is not evidence.

- **`reproduced`** where all of the 95 % interval is in the band and the value without effect is not in the interval.
  **`not reproduced`** where none of it is in the band. **`undecided`** otherwise, and where there is no interval. A band of
  "at least" or "at most" has one end; the rule is the same.
- **What is exact** (bytes, lengths, FLOPs, a virtual clock) has no noise and no interval: the value decides.
- **The interval** is of a median over rounds, and of a ratio of two cases of the ratios within rounds. Its ends are the
  order statistics that a sign test does not reject, so that it covers the true median in at least 95 % of all cases, at
  any number of samples from six and whatever the distribution. (A percentile bootstrap of 6 to 20 samples covers it in 87
  to 94 %.) One side of it errs in 2.5 % at most, and so does a verdict after a fixed number of rounds.
- **When rounds end.** `frugal reproduce` looks at its verdicts after `--samples` rounds, and again whenever there are twice
  as many. It ends early only where every verdict would be the same by {early:.3g} % intervals; otherwise when `--budget`
  seconds are over. The last look is at 95 %. So {looks} early looks and the last one together say `reproduced` of a value at
  the band's edge in 5 % at most, and `not reproduced` in 5 % at most (`tests/harness/decided_test.cpp` has 10,000 simulated
  measurements of each truth; looking at the 95 % interval each time would exceed that).
- **What is missing.** An undecided number says about how many more rounds would decide it: an interval is as wide as one
  over the root of their number. `--rerun all` with a longer `--budget` times them.
- **At reduced size** on a real machine, `--scale 1/8` or what the artifact chooses for the processor, the ratios of memory
  and of FLOPs are the paper's, and how large an effect on times is, is not: no band would mean anything. There the
  *direction* is judged, whether the interval is on the paper's side of the value without effect. Tables then write
  `direction reproduced`, and JSON's `relation` is `direction`. Table 4 of `korthikanti2022` also has the *order* of its
  overheads: each pair of rows has an interval of its ratio within rounds, such that all pairs' hold together (Bonferroni).

The paper's number is one of its program. Where that program is executed ([programs.md](programs.md)), its verdict counts;
frugal's own has one, too, in a column of its own.
)";

}  // namespace

std::string markdown() {
  return fmt::format(page, fmt::arg("measured", 100 * of_measured),
                     fmt::arg("timed", 100 * of_timed), fmt::arg("compared", 100 * of_compared),
                     fmt::arg("effect", 100 * of_effect), fmt::arg("early", 100 * early_level),
                     fmt::arg("looks", most_looks));
}

}  // namespace frugal::experiments::policy
