"""frugal flops: a step's FLOPs by each convention, beside what frugal measure records of the same step."""

import json

from program import Cli

STEP = ["--model", "gpt2-124m", "--type", "bf16", "--recompute", "full", "--microbatches", "2"]


class Flops(Cli):
    def counted(self, *arguments):
        said = json.loads(self.run_frugal("flops", *STEP, *arguments, "--format", "json").stdout)
        return said, {row["convention"]: row for row in said["flops"]}

    def test_of_a_step_that_was_timed(self):
        (virtual, before), (given, after) = self.counted(), self.counted("--step-time", "0.5")
        self.assertEqual(given["step_time"], {"seconds": 0.5, "source": "given"})
        for convention, row in after.items():
            self.assertEqual(row["flops"], before[convention]["flops"])
            self.assertAlmostEqual(row["utilization"],
                                   before[convention]["utilization"] * virtual["step_time"]["seconds"] / 0.5)
        self.assertIn("a step of 2048 tokens: 0.5 s, given; peak: 3.12e+14 FLOP/s",
                      self.run_frugal("flops", *STEP, "--step-time", "0.5").stdout)

    def test_counting_needs_no_memory(self):
        def counted(*arguments):
            said = json.loads(self.run_frugal("flops", "--model", "22B", *arguments, "--format", "json").stdout)
            return {row["convention"]: row["flops"] for row in said["flops"]}

        too_large = ["--type", "bf16", "--on", "virtual:h100-dgx"]
        self.run_frugal("measure", "--model", "22B", *too_large, status=3)
        divided = counted(*too_large, "--tensor-parallel", "8", "--sequence-parallel")  # which fits
        self.assertEqual(counted(*too_large), divided)
        self.assertEqual(counted("--on", "cpu", "--step-time", "1"), divided)

    def test_without_a_data_sheet_there_is_no_peak(self):
        table = self.run_frugal("flops", "--model", "gpt-tiny", "--on", "cpu", "--threads", "1").stdout
        self.assertNotIn("% of peak", table)
        self.assertIn("measured; peak: ", table)

    def test_what_is_wrong(self):
        self.rejected("flops", "--model", "gpt-tiny", "--step-time", "0", says=["--step-time"])
        self.rejected("flops", "--model", "gpt-tiny", "--recompute", "none,full", says=["recompute"])
